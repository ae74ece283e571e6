"""What validators and checks answer: a refusal that changes nothing, with its parts for every screen."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.checks import ChecksReport
    from activities.failures import INVALID_INPUT, REFUSED, ErrorDetails, details_of
    from hopline.domain.errors import ContradictingWish, InvalidInput, TargetAway
    from hopline.domain.status import UpgradeStatus
    from hopline.domain.wire import ClusterKey
    from workflows.messages import ASK_AGAIN


def invalid_input(error: InvalidInput) -> ApplicationError:
    """The start input, or a message to a run that was started with a bad one, is not usable."""
    return ApplicationError(str(error), details_of(error), type=INVALID_INPUT, non_retryable=True)


def contradicting_wish(cluster: ClusterKey, running: str, asked: str) -> ApplicationError:
    """Another version is being carried out."""
    error = ContradictingWish(
        f"an upgrade of {cluster} to {running} is running",
        subject=f"ClusterVersion {cluster}",
        field="spec.desiredVersion",
        value=asked,
        remedy=f"wait for it, or: hopline abort {cluster.name} -n {cluster.kube_namespace}",
    )
    return ApplicationError(str(error), details_of(error), type=REFUSED, non_retryable=True)


def ask_again(status: UpgradeStatus) -> ApplicationError:
    """A wish came after its run was refused: what refused that one may be repaired by now."""
    return ApplicationError(f"the run of {status.cluster} is closing", type=ASK_AGAIN, non_retryable=True)


def nothing_to(verb: str, status: UpgradeStatus) -> ApplicationError:
    """A command that fits another state of the run."""
    message = f"nothing to {verb}: the upgrade of {status.cluster} is {status.state.value}"
    return ApplicationError(message, type=REFUSED, non_retryable=True)


def require_passed(report: ChecksReport) -> None:
    """Raise what the checks refuse, or that the cluster could not be looked at."""
    if report.away:
        raise ApplicationError(report.away, ErrorDetails(kind=TargetAway.__name__, message=report.away))
    if report.refusal is not None:
        raise ApplicationError(report.refusal.sentence(), report.refusal, type=REFUSED, non_retryable=True)
