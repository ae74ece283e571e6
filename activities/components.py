"""Manifest components and pre-upgrade resources: apply, then wait by observation."""

from __future__ import annotations

import time
from collections.abc import Callable

from temporalio import activity

from activities.failures import translated
from activities.heartbeats import Pulse, heartbeating
from activities.requests import ManagementFence, RunRequest
from activities.target import PATIENT_ATTEMPTS, minding_target
from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import InvalidRelease, Transient
from hopline.domain.plan import PlannedComponent
from hopline.domain.release import ComponentVersion, Release
from hopline.domain.wire import WireModel
from hopline.operations import manifests, pre_upgrade_resources, pruning
from hopline.operations.component_objects import ComponentObjects
from hopline.operations.live_objects import PlainDifferences
from hopline.operations.manifest_rollout import RolloutObservation, observe_rollout, wait_for_change
from hopline.operations.one_controller import OneController
from hopline.operations.releases import ReleaseShelf
from hopline.operations.snapshots import ClusterSnapshots
from hopline.operations.target_reach import TargetReach
from hopline.ports import ClusterClient, Clusters

WINDOW_SECONDS = 240.0
"""A wait returns at the latest after this long (workflows/activity_options.WAIT_WINDOW)."""


BRIEF_SECONDS = 5.0
"""A refusal within this time is simply tried again twice, before the status tells it."""


class ComponentRequest(RunRequest):
    """One component of one hop; `release_digest` pins the bytes, `attempt` counts from 1 and grows with each retry.

    Attributes:
        from_version: the release that the hop comes from; empty: nobody can say what this version no longer has.
        told: why an earlier call was refused for now, as the workflow has shown it already.
    """

    component: PlannedComponent
    attempt: int = 1
    from_version: str = ""
    told: str = ""
    hop_version: str
    release_digest: str


class AppliedComponent(WireModel):
    """What an apply did.

    Attributes:
        changed: how many objects were written, `unchanged` how many already were as they should be.
        settled: nothing is left to wait for.
        not_installed: none of its workloads exists, so the component was left alone.
        refused: the API server does not take it for now, as `waiting_for` says; ask again with that as `told`.
        notes: what a person should know (fields taken over, checks that could not look); at most ten.
    """

    changed: int = 0
    unchanged: int = 0
    settled: bool = False
    not_installed: bool = False
    refused: bool = False
    waiting_for: str = ""
    notes: tuple[str, ...] = ()


class WaitRequest(ComponentRequest):
    """Wait on; `last` is what the workflow already knows. The wait returns at the latest after `window_seconds`.

    With no window it is one look at the cluster itself, the last one before a deadline speaks (design §8).
    """

    last: str = ""
    window_seconds: float = WINDOW_SECONDS


class WaitReport(WireModel):
    """What a wait saw; `failed` is the sentence of a rollout that will not become ready by itself."""

    ready: bool = False
    waiting_for: str = ""
    failed: str = ""


class ComponentActivities:
    """Effects of manifest components on the target cluster, and of resources on the management cluster."""

    def __init__(
        self,
        clusters: Clusters,
        fence: ManagementFence,
        shelf: ReleaseShelf,
        field_manager: str,
        one_controller: OneController,
        differences: PlainDifferences | None = None,
    ) -> None:
        self._differences = differences
        self._clusters = clusters
        self._one_controller = one_controller
        self._fence = fence
        self._shelf = shelf
        self._field_manager = field_manager
        self.snapshots = ClusterSnapshots(clusters.management)
        self.reach = TargetReach(clusters)

    @activity.defn
    @translated
    async def apply_component(self, request: ComponentRequest) -> AppliedComponent:
        """Check the component as a whole, write what differs, and look once at its rollout.

        A refusal that lasts (a webhook without endpoints, an overloaded server) is an answer, so that the status can
        say it; the same one as before is a failed attempt, which Temporal repeats up to the deadline.
        """
        began = time.monotonic()
        try:
            return await self._apply(request)
        except Transient as error:
            is_brief = activity.info().attempt <= PATIENT_ATTEMPTS and time.monotonic() - began < BRIEF_SECONDS
            if is_brief or str(error) == request.told:
                raise
            return AppliedComponent(refused=True, waiting_for=str(error))

    @minding_target
    async def _apply(self, request: ComponentRequest) -> AppliedComponent:
        await self._fence.check(request)
        async with heartbeating() as pulse:
            await self._one_controller.require_alone(again=request.attempt > 1)
            target, objects = await self._prepare(request)
            outcome = await manifests.apply_documents(
                target,
                objects,
                field_manager=self._field_manager,
                on_progress=_tell(pulse),
                seen=self._differences if request.attempt == activity.info().attempt == 1 else None,
            )
            if outcome.not_installed:
                return AppliedComponent(not_installed=True, settled=True)
            pruned = await self._pruned(request, target)
            seen = await observe_rollout(target, objects)
            return AppliedComponent(
                changed=len(outcome.changed),
                unchanged=outcome.unchanged,
                settled=seen.ready,
                waiting_for=seen.waiting_for,
                notes=(*pruned, *outcome.notes)[:10],
            )

    @activity.defn
    @translated
    @minding_target
    async def wait_for_component(self, request: WaitRequest) -> WaitReport:
        """Return when the rollout is ready, cannot become ready, or when what it waits for has changed."""
        await self._fence.check(request)
        async with heartbeating() as pulse:
            target, objects = await self._prepare(request)
            pulse.message = request.last
            if request.window_seconds <= 0:
                seen = await observe_rollout(target, objects)
                return WaitReport(ready=seen.ready, waiting_for=seen.waiting_for, failed=seen.failed)
            last = RolloutObservation(ready=False, waiting_for=request.last)
            seen = await wait_for_change(target, objects, last, request.window_seconds)
            return WaitReport(ready=seen.ready, waiting_for=seen.waiting_for, failed=seen.failed)

    @activity.defn
    @translated
    async def create_resources(self, request: ComponentRequest) -> AppliedComponent:
        """Make the pre-upgrade resources in the management cluster; those that exist are left alone."""
        await self._fence.check(request)
        async with heartbeating() as pulse:
            await self._one_controller.require_alone(again=request.attempt > 1)
            release = await self._shelf.release(request.hop_version, request.release_digest, cluster=request.cluster)
            declared = _declared(release, request.component)
            outcome = await pre_upgrade_resources.create_resources(
                self._clusters.management, declared, field_manager=self._field_manager, on_progress=_tell(pulse)
            )
            return AppliedComponent(
                changed=len(outcome.changed), unchanged=outcome.unchanged, settled=True, notes=outcome.notes[:10]
            )

    async def _pruned(self, request: ComponentRequest, target: ClusterClient) -> tuple[str, ...]:
        """What this version no longer has is deleted or named, if the component asks for it."""
        release = await self._shelf.release(request.hop_version, request.release_digest, cluster=request.cluster)
        component = _declared(release, request.component)
        if not component.yaml.prune:
            return ()
        before = await pruning.release_before(self._shelf, request.from_version, request.cluster)
        if before is None:
            return (f"nothing is pruned: the release {request.from_version} before this one is not at hand",)
        succession = pruning.Succession(before, release, component, await self._facts(request))
        applied = pruning.AppliedBy(request.cluster, request.run_id, request.attempt)
        return await pruning.prune_and_tell(target, self._clusters.management, succession, applied, self._field_manager)

    async def _facts(self, request: ComponentRequest, *, fresh: bool = False) -> ClusterFacts:
        hop = f"{request.run_id}/{request.cluster}/{request.hop_version}"
        return await self.snapshots.facts(request.cluster, hop, request.attempt, fresh=fresh)

    async def _prepare(self, request: ComponentRequest) -> tuple[ClusterClient, ComponentObjects]:
        facts = await self._facts(request, fresh=activity.info().attempt > 1)
        target = await self._clusters.target(request.cluster)
        release = await self._shelf.release(request.hop_version, request.release_digest, cluster=request.cluster)
        objects = await manifests.render_documents(release, _declared(release, request.component), facts)
        if request.component.without_pods:
            objects = objects.without_pods(self._one_controller.policy)
        return target, objects


def _declared(release: Release, component: PlannedComponent) -> ComponentVersion:
    found = release.component(component.name, component.version)
    if found is None:
        raise InvalidRelease(
            "the release no longer has the component that the plan names",
            subject=f"ReleaseImage {release.name}",
            field="spec.upgrade.components",
            value=f"{component.name} {component.version}",
            remedy="restore the release that was planned, or abort and plan anew",
        )
    return found


def _tell(pulse: Pulse) -> Callable[[str], None]:
    def tell(message: str) -> None:
        pulse.message = message

    return tell
