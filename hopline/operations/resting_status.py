"""The status document of a cluster that no run looks after: read from its custom resources."""

from __future__ import annotations

from hopline.domain.cluster import ClusterFacts
from hopline.domain.status import RunState, UpgradeStatus


def resting_status(facts: ClusterFacts) -> UpgradeStatus:
    """What a person wants to know when no upgrade has run yet: version and health, as recorded."""
    health = facts.health_state or "health unknown"
    waiting = facts.desired_version and facts.desired_version != facts.current_version
    message = f"no upgrade runs; recorded version {facts.current_version or 'unknown'}, {health}"
    if waiting:
        message += f"; desired version {facts.desired_version} has no run yet"
    return UpgradeStatus(
        cluster=facts.key,
        from_version=facts.current_version,
        to_version=facts.desired_version or facts.current_version,
        state=RunState.DONE if not waiting else RunState.UNKNOWN,
        message=message,
    )
