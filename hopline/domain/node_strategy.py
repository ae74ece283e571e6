"""How nodes are walked and drained, as a release or an operator asks for it: values only."""

from __future__ import annotations

from hopline.domain.errors import InvalidInput
from hopline.domain.wire import WireEnum, WireModel

DEFAULT_TIMEOUT_SECONDS = 600.0


class WaveStrategy(WireModel):
    """How a pool is walked, as written in `spec.upgradeStrategy`.

    Attributes:
        batch_size: nodes at once; 0: not said.
        max_unavailable: a number or a percentage of the pool; empty: not said.
        canary: nodes of a first wave; 0: none.
        soak_seconds: how long the canary wave is looked at before the others begin.
        failure_budget: failed nodes that are put aside, a number or a percentage; empty: none.
        node_retries: how often a node whose Command failed is tried again before it counts as failed; -1: not said.
    """

    batch_size: int = 0
    max_unavailable: str = ""
    canary: int = 0
    soak_seconds: float = 0.0
    failure_budget: str = ""
    node_retries: int = -1


class DrainPolicy(WireEnum):
    """What is done about pods that cannot be evicted in time."""

    OFF = "off"
    """Nothing is cordoned and nothing evicted."""
    WAIT = "wait"
    """Wait for them up to the timeout, then give the node back as it was: it has failed (default)."""
    SKIP = "skip"
    """Leave them running at the timeout, and go on; a pod with devices is never left so."""
    FORCE = "force"
    """Delete them at the timeout, past their budgets; bare pods are evicted."""
    UNKNOWN = "unknown"


class DrainRules(WireModel):
    """How nodes are drained.

    Attributes:
        grace_seconds: of every evicted pod; -1: each pod's own.
    """

    policy: DrainPolicy = DrainPolicy.OFF
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    grace_seconds: int = -1

    @property
    def is_on(self) -> bool:
        """Whether nodes are cordoned and drained at all."""
        return self.policy is not DrainPolicy.OFF

    @property
    def waits(self) -> bool:
        """Nothing goes past a pod that cannot be evicted; also for a policy of a newer version."""
        return self.policy not in (DrainPolicy.SKIP, DrainPolicy.FORCE)


class DrainWish(WireModel):
    """What a release says about drains of one component; None: as the operator's settings say."""

    policy: DrainPolicy | None = None
    timeout_seconds: float | None = None
    grace_seconds: int | None = None

    def over(self, settings: DrainRules) -> DrainRules:
        """The rules in force."""
        return settings.model_copy(update={key: value for key, value in dict(self).items() if value is not None})


def amount(text: str, total: int) -> int:
    """`3` or `25%` of `total`, rounded down. Raises InvalidInput; the caller adds object and field."""
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 6:
        raise InvalidInput(
            f"{text!r} is no number of nodes", value=text, remedy="write a number (3) or a percentage (25%)"
        )
    number = int(digits)
    if not text.endswith("%"):
        return number
    if number > 100:
        raise InvalidInput(f"{text} is more than all nodes", value=text, remedy="write at most 100%")
    return total * number // 100
