"""The health checks of a component, looked at once (openfuyao-api.md §7.6). Waiting for them is part of the rollout."""

from __future__ import annotations

from dataclasses import dataclass

from hopline.domain.release import HealthCheck
from hopline.operations.component_objects import side_by_side
from hopline.operations.manifest_rollout import read_source
from hopline.operations.rollout_judgement import judge_health
from hopline.ports import ClusterClient


@dataclass(frozen=True)
class HealthObservation:
    """`message` says what keeps the checks from passing; empty when they pass."""

    passed: bool
    message: str = ""


async def check_health(client: ClusterClient, health: HealthCheck) -> HealthObservation:
    """One look at every check. Disabled and Custom ones pass: no worker runs a release's shell commands."""
    sources = judge_health(health, {}).needs
    tables = await side_by_side(lambda source: read_source(client, source), sources)
    observation = judge_health(health, dict(zip(sources, tables, strict=True))).observation
    return HealthObservation(observation.ready, observation.waiting_for)
