"""What the status document says while the cluster that is upgraded cannot be reached."""

from __future__ import annotations

from hopline.domain.status import UpgradeStatus

TARGET_UNREACHABLE = "TargetUnreachable"
"""Reason of a run that waits until the cluster that it upgrades can be reached."""


def target_away(status: UpgradeStatus, message: str) -> UpgradeStatus:
    """The cluster cannot be reached; the run waits in the state in which it is."""
    return status.model_copy(update={"message": message, "reason": TARGET_UNREACHABLE})


def target_back(status: UpgradeStatus, message: str, before: str) -> UpgradeStatus:
    """It can be reached again; what was said `before` holds, unless something else than `message` is said by now."""
    said = before if status.message == message else status.message
    reason = "" if status.reason == TARGET_UNREACHABLE else status.reason
    return status.model_copy(update={"message": said, "reason": reason})
