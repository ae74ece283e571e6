"""The oldest version from which a platform is upgraded by declaring another one (the guide's section on limits)."""

from __future__ import annotations

from hopline.domain.errors import InvalidVersion, NoUpgradePath, PathReason
from hopline.domain.resources import CLUSTER_VERSION
from hopline.domain.versions import parse_version
from hopline.domain.wire import ClusterKey

OLDEST_VERSION = "v26.06-rc.2"
OLDER_GUIDE = "the openFuyao upgrade guide for v26.03 to v26.06"


def too_old(current: str, oldest: str, cluster: ClusterKey | None = None) -> NoUpgradePath | None:
    """Why `current` is no version to start from; None when it is one, or is not in order (the path says so then)."""
    try:
        if parse_version(current) >= parse_version(oldest):
            return None
    except InvalidVersion:
        return None
    return NoUpgradePath(
        f"{current} is older than {oldest}, from which on a platform is upgraded by its desired version",
        reason=PathReason.TOO_OLD,
        subject=f"{CLUSTER_VERSION.kind} {cluster}" if cluster else CLUSTER_VERSION.kind,
        field="status.currentVersion",
        value=current,
        remedy=f"upgrade to {oldest} or later as {OLDER_GUIDE} says, then declare the version again",
    )
