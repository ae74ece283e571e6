"""The checks around a hop: the guards that always hold, the target's own health, and the catalogue's named checks.

Nothing here writes. "Could not look" is never "ok": a required check that could not look refuses (design §8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hopline.domain.cluster import ClusterFacts
from hopline.domain.cluster_checks import (
    CLUSTER_HEALTH,
    DISK_SPACE,
    ETCD_HEALTH,
    NODES_READY,
    disk_problems,
    health_problems,
    node_problems,
    refusal_of,
    refusal_of_health,
    some_of,
)
from hopline.domain.errors import ClusterNotReady, HoplineError, PortError, Transient
from hopline.domain.etcd import health_problems as etcd_problems
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import CheckResult, CheckStage, PlannedCheck
from hopline.domain.wire import ClusterKey, WireModel
from hopline.operations.node_sightings import TargetView, read_target
from hopline.operations.one_controller import HopWrites, OneController
from hopline.operations.reading import read_cluster
from hopline.ports import Clusters

REACH_ATTEMPTS = 3
REACH_PAUSE_SECONDS = 2.0
LOOK_AGAIN_SECONDS = 1.0


class Health(WireModel):
    """What the target cluster shows of itself. `unread`: why it could not be read; then nothing else is known."""

    problems: tuple[str, ...] = ()
    unread: str = ""

    @property
    def is_good(self) -> bool:
        """It was read, and nothing was wrong."""
        return not self.problems and not self.unread


@dataclass(frozen=True)
class Verdict:
    """What the checks of one stage have seen, and of which cluster."""

    facts: ClusterFacts
    checks: tuple[PlannedCheck, ...]
    health: Health


class ClusterChecks:
    """Looks at a cluster before and after a hop."""

    def __init__(self, clusters: Clusters, one_controller: OneController | None = None) -> None:
        self._clusters = clusters
        self._one_controller = one_controller or OneController(clusters.management, ControllerPolicy())

    async def before(
        self,
        cluster: ClusterKey,
        checks: tuple[PlannedCheck, ...],
        workflow_id: str,
        *,
        writes: HopWrites | None = None,
        patience_seconds: float = 0.0,
    ) -> tuple[tuple[PlannedCheck, ...], HoplineError | None]:
        """The checks with their results, and what refuses the hop; None when nothing does.

        With `writes` a dry run proves that the hop can be written. Raises Transient only while the management cluster
        is out of reach.
        """
        try:
            facts = await read_cluster(self._clusters.management, cluster)
        except ClusterNotReady as error:
            return checks, error
        refusal: HoplineError | None = await self._one_controller.refusal() or refusal_of(facts, workflow_id)
        if refusal is not None:
            return checks, refusal
        verdict = await self._verdict(facts, checks, patience_seconds)
        refusal = _before(verdict)
        if refusal is None and writes is not None:
            refusal = await self._one_controller.unwritable(verdict.facts, writes)
        return verdict.checks, refusal

    async def after(
        self, cluster: ClusterKey, checks: tuple[PlannedCheck, ...], *, patience_seconds: float = 0.0
    ) -> tuple[tuple[PlannedCheck, ...], HoplineError | None]:
        """Like `before`, at the end of a hop: the target must be well, whatever the catalogue names (design §2.10)."""
        facts = await read_cluster(self._clusters.management, cluster)
        other = await self._one_controller.refusal()
        if other is not None:
            return checks, other
        verdict = await self._verdict(facts, checks, patience_seconds)
        if not verdict.health.is_good:
            return verdict.checks, _not_well(cluster, verdict.health)
        return verdict.checks, refusal_of_checks(cluster, verdict.checks)

    async def health_of(self, facts: ClusterFacts) -> Health:
        """The real health of the target: every Node Ready, the static pods of the control plane ready."""
        health, _ = await self._look(facts)
        return health

    async def _verdict(self, facts: ClusterFacts, checks: tuple[PlannedCheck, ...], patience_seconds: float) -> Verdict:
        """Look again for a while when something failed: a node may be late by a moment."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_seconds
        while True:
            health, view = await self._look(facts)
            etcd = await self._look_at_etcd(facts) if any(one.name == ETCD_HEALTH for one in checks) else Health()
            results = tuple(run_check(check, facts, health, view, etcd) for check in checks)
            failed = not health.is_good or any(one.result is CheckResult.FAILED for one in results)
            if not failed or loop.time() >= deadline:
                return Verdict(facts, results, health)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            facts = await read_cluster(self._clusters.management, facts.key)

    async def _look_at_etcd(self, facts: ClusterFacts) -> Health:
        """What etcd shows of itself, whatever the API server says."""
        try:
            return Health(problems=etcd_problems(await self._clusters.etcd.look(facts), facts))
        except (ClusterNotReady, PortError) as error:
            return Health(unread=str(error))

    async def _look(self, facts: ClusterFacts) -> tuple[Health, TargetView]:
        """A target that does not answer is asked a few times: before a hop that is a refusal, not a fault."""
        nothing = TargetView((), ())
        problem: HoplineError | None = None
        for attempt in range(REACH_ATTEMPTS):
            if attempt:
                await asyncio.sleep(REACH_PAUSE_SECONDS)
            try:
                view = await read_target(await self._clusters.target(facts.key))
            except Transient as error:
                problem = error
            except (ClusterNotReady, PortError) as error:
                return Health(unread=str(error)), nothing
            else:
                return Health(problems=health_problems(facts, view.nodes, view.pods)), view
        return Health(unread=str(problem)), nothing


def run_check(
    check: PlannedCheck, facts: ClusterFacts, health: Health, view: TargetView, etcd: Health | None = None
) -> PlannedCheck:
    """One named check with its result and what was seen."""
    looked = (etcd or Health()) if check.name == ETCD_HEALTH else health
    if check.name not in (*_CHECKS, ETCD_HEALTH):
        known = ", ".join(sorted((*_CHECKS, ETCD_HEALTH)))
        result, message = CheckResult.UNKNOWN_CHECK, f"known checks are {known}"
    elif looked.unread:
        result, message = CheckResult.COULD_NOT_LOOK, looked.unread
    else:
        problems = looked.problems if check.name == ETCD_HEALTH else _CHECKS[check.name](facts, view)
        result = CheckResult.FAILED if problems else CheckResult.OK
        message = some_of(problems)
    return check.model_copy(update={"result": result, "message": message})


def _cluster_health(facts: ClusterFacts, view: TargetView) -> tuple[str, ...]:
    return health_problems(facts, view.nodes, view.pods)


def _nodes_ready(facts: ClusterFacts, view: TargetView) -> tuple[str, ...]:
    return node_problems(facts, view.nodes)


def _disk_space(facts: ClusterFacts, view: TargetView) -> tuple[str, ...]:
    return disk_problems(facts, view.nodes)


_CHECKS: Mapping[str, Callable[[ClusterFacts, TargetView], tuple[str, ...]]] = {
    CLUSTER_HEALTH: _cluster_health,
    NODES_READY: _nodes_ready,
    DISK_SPACE: _disk_space,
}
"""Those that look at the target's API server; `etcd-health` looks at etcd itself."""


def refusal_of_checks(cluster: ClusterKey, checks: tuple[PlannedCheck, ...]) -> ClusterNotReady | None:
    """The first required check that is not ok; optional ones only warn."""
    for check in checks:
        if check.required and check.result is not CheckResult.OK:
            where = "preCheck" if check.stage is CheckStage.BEFORE else "postCheck"
            return ClusterNotReady(
                f"the required check {check.name} of the catalogue says: {check.result.value}; {check.message}",
                subject=f"BKECluster {cluster}",
                field=f"UpgradePath spec.paths[{check.edge}].{where}",
                value=check.name,
                remedy=_remedy(check),
            )
    return None


def _remedy(check: PlannedCheck) -> str:
    if check.result is CheckResult.FAILED:
        return "mend what it names, then start again"
    if check.result is CheckResult.UNKNOWN_CHECK or check.name == ETCD_HEALTH:
        own = f"look for yourself, then set required: false for {check.name} in the UpgradePath"
        return own if check.result is CheckResult.UNKNOWN_CHECK else f"let this worker reach etcd; or {own}"
    return "make the cluster reachable, then start again"


def _before(verdict: Verdict) -> HoplineError | None:
    facts = verdict.facts
    if verdict.health.unread:
        return ClusterNotReady(
            "the cluster that is to be upgraded cannot be reached",
            subject=facts.subject,
            field="kubeconfig",
            value=verdict.health.unread,
            remedy=f"check the Secret {facts.key.name}-kubeconfig in {facts.key.kube_namespace} and its API server",
        )
    return refusal_of_health(facts, verdict.health.problems) or refusal_of_checks(facts.key, verdict.checks)


def _not_well(cluster: ClusterKey, health: Health) -> ClusterNotReady:
    return ClusterNotReady(
        "every component is done, but the cluster is not well",
        subject=f"BKECluster {cluster}",
        field="status of its nodes and of the static pods in kube-system",
        value=health.unread or some_of(health.problems),
        remedy="mend what is named, then retry: the checks look again, nothing runs twice",
    )
