"""What the API server answers to an eviction, told apart (design §8: "told apart and named")."""

from __future__ import annotations

from hopline.domain.errors import Blocked, Conflict, Forbidden, NotFound, PortError, Rejected, Transient
from hopline.domain.wire import WireEnum

TOO_MANY_REQUESTS = "HTTP 429"
"""The value that the adapter gives a Transient error of that code."""


class EvictionAnswer(WireEnum):
    """Classes of answers; `sentence` has their words."""

    ACCEPTED = "accepted"
    """The pod is going. It is gone when its uid is."""
    GONE = "gone"
    """404: it was gone already."""
    OTHER_POD = "other pod"
    """409: another pod has its name, or it has just changed: look again."""
    BUDGET = "budget"
    """429 with a disruption budget as its cause."""
    OVERLOADED = "overloaded"
    """429 without one: the API server asks for patience."""
    TWO_BUDGETS = "two budgets"
    """500: more than one budget is over the pod, which never works."""
    WEBHOOK = "webhook"
    """403 by an admission webhook or policy."""
    NAMESPACE_ENDS = "namespace ends"
    """403 because the Kubernetes namespace is being deleted: the pod goes with it."""
    FORBIDDEN = "forbidden"
    """403 by RBAC."""
    UNREACHABLE = "unreachable"
    """No answer, or a fault of the server."""
    UNKNOWN = "unknown"


_WORDS = {
    EvictionAnswer.BUDGET: "its disruption budget does not allow it now",
    EvictionAnswer.OVERLOADED: "the API server is overloaded, no budget is in the way",
    EvictionAnswer.TWO_BUDGETS: "more than one PodDisruptionBudget is over it, which the Eviction API refuses for ever",
    EvictionAnswer.WEBHOOK: "an admission webhook refuses it",
    EvictionAnswer.NAMESPACE_ENDS: "its Kubernetes namespace is being deleted, it goes with it",
    EvictionAnswer.FORBIDDEN: "this account may not evict it",
    EvictionAnswer.UNREACHABLE: "the API server gave no answer",
}


def answer_of(error: PortError) -> EvictionAnswer:
    """The class of a refusal."""
    match error:
        case NotFound():
            return EvictionAnswer.GONE
        case Conflict():
            return EvictionAnswer.OTHER_POD
        case Blocked():
            return EvictionAnswer.BUDGET
        case Transient():
            is_load = error.value == TOO_MANY_REQUESTS
            return EvictionAnswer.OVERLOADED if is_load else EvictionAnswer.UNREACHABLE
        case Forbidden():
            ends = "being terminated" in error.message
            return EvictionAnswer.NAMESPACE_ENDS if ends else EvictionAnswer.FORBIDDEN
        case Rejected():
            two = "more than one PodDisruptionBudget" in error.message
            return EvictionAnswer.TWO_BUDGETS if two else EvictionAnswer.WEBHOOK
    return EvictionAnswer.UNKNOWN


def sentence(pod: str, answer: EvictionAnswer, message: str) -> str:
    """Why a pod is still there, for a person: what kind of refusal it is, then the server's own words."""
    words = _WORDS.get(answer, "it was not evicted")
    return f"{pod}: {words} ({message})" if message else f"{pod}: {words}"
