"""Gathering what a plan is made of: catalogue, releases, records, and what each node and object shows (design §2.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hopline.domain.catalogue import Edge
from hopline.domain.cluster import ClusterFacts
from hopline.domain.components import handler_of as handler_of_inline
from hopline.domain.components import inline_of, pools_of, type_of
from hopline.domain.decisions import Wanted, decide
from hopline.domain.errors import (
    ClusterNotReady,
    HoplineError,
    InvalidCatalogue,
    InvalidDocument,
    InvalidRelease,
    PortError,
)
from hopline.domain.observation import ComponentSighting, Presence
from hopline.domain.oldest_version import OLDEST_VERSION, too_old
from hopline.domain.other_controllers import ForeignProvider
from hopline.domain.plan import (
    Action,
    ComponentType,
    Finding,
    HopOutline,
    HopPlan,
    PlanOutline,
    SchedulingMode,
    Severity,
    UpgradePlan,
)
from hopline.domain.planner import PlanningInputs, plan_upgrade
from hopline.domain.release import ComponentRef, ComponentVersion, Release
from hopline.domain.release_rules import require_valid
from hopline.domain.release_verdict import conflict_of, notices_of
from hopline.domain.routes import Reachable
from hopline.domain.upgrade_graph import UpgradeGraph
from hopline.domain.wire import ClusterKey
from hopline.operations import manifests
from hopline.operations.brought_controllers import brought_controllers
from hopline.operations.catalogue_reading import reachable_versions
from hopline.operations.component_objects import ComponentObjects, PlacedObject, place_objects, side_by_side
from hopline.operations.image_supply import SeenImages, review_supply
from hopline.operations.live_objects import Live, PlainDifferences, read_live
from hopline.operations.manifest_review import review_manifests
from hopline.operations.node_sightings import sighting
from hopline.operations.one_controller import OneController
from hopline.operations.reading import read_catalogue_of, read_cluster
from hopline.operations.releases import ReleaseShelf
from hopline.ports import ClusterClient, Clusters

T = TypeVar("T")
R = TypeVar("R")

MAX_LOOKS = 8
"""Components looked at side by side; each look is itself parallel inside."""


@dataclass(frozen=True)
class _NodeLevel:
    """What a look at nodes must know of a component."""

    name: str
    version: str
    handler: str


class Planner:
    """Reads and plans; changes nothing."""

    def __init__(
        self,
        clusters: Clusters,
        shelf: ReleaseShelf,
        field_manager: str,
        one_controller: OneController,
        oldest: str = OLDEST_VERSION,
        differences: PlainDifferences | None = None,
    ) -> None:
        self._clusters = clusters
        self._differences = differences
        self._oldest = oldest
        self._one_controller = one_controller
        self._shelf = shelf
        self._field_manager = field_manager

    async def require_alone(self) -> None:
        """Raise OtherController when a start has to be refused, whatever the plan says."""
        refusal = await self._one_controller.refusal()
        if refusal is not None:
            raise refusal

    async def reachable(self, facts: ClusterFacts) -> Reachable:
        """The versions that the cluster can be brought to. Raises InvalidCatalogue when there is no one catalogue."""
        current = facts.current_version
        if error := too_old(current, self._oldest, facts.key):
            return Reachable(from_version=current, reason=error.reason, message=str(error), remedy=error.remedy)
        return await reachable_versions(self._clusters.management, current)

    async def plan(
        self, cluster: ClusterKey, desired: str, *, mode: SchedulingMode = SchedulingMode.BATCHES, slots: int = 8
    ) -> tuple[ClusterFacts, UpgradePlan]:
        """The whole way. Raises every Refusal that a document, the path or the reach of the cluster gives."""
        facts = await self._facts(cluster)
        if desired != facts.current_version and (error := too_old(facts.current_version, self._oldest, cluster)):
            raise error
        graph = UpgradeGraph(await read_catalogue_of(self._clusters.management))
        edges = graph.require_path(facts.current_version, desired, cluster).hops
        releases = [await self._valid_release(cluster, edge.to_version) for edge in edges]
        inputs = await self._inputs(facts, tuple(edges), tuple(releases), mode, slots)
        plan = plan_upgrade(inputs)
        doubts = () if edges else await self._doubts(facts)
        first = await self._one_controller.findings()
        seen, versions = SeenImages(), [edge.to_version for edge in edges]
        objects = await review_manifests(
            facts, plan.hops, releases, inputs.current_release, lambda: self._clusters.target(facts.key), seen.add
        )
        supply, supplied = await review_supply(self._clusters.management.get, facts, versions, seen)
        told = tuple(notice for release in releases for notice in notices_of(release))
        findings = (*first, *plan.findings, *objects, *doubts, *supplied, *told)
        return facts, plan.model_copy(update={"findings": findings, "supply": supply})

    async def _doubts(self, facts: ClusterFacts) -> tuple[Finding, ...]:
        """What keeps "already there" from being true: it is concluded from nodes and objects, never from a record."""
        version = facts.current_version
        subject = f"ClusterVersion {facts.key}"
        try:
            release = await self._shelf.release(version, cluster=facts.key)
        except (InvalidRelease, InvalidDocument) as error:
            message = f"{version} is recorded, but nobody can see whether it is there: {error}"
            return (_doubt(subject, message, f"make the release {version} readable, then look again"),)
        foreign = await self._foreign(facts, release)
        sightings = await self._look(facts, release, foreign)
        skipped = foreign if self._one_controller.policy.foreign_provider is ForeignProvider.SKIP else {}
        found = []
        for ref in release.upgrade:
            if ref.name in skipped:
                continue
            wanted = Wanted(ref.name, ref.version, type_of(ref, release.component(ref.name, ref.version)))
            action, reason = decide(wanted, sightings.get(ref.name), ref.version)
            if action is not Action.RUN or wanted.type is ComponentType.RESOURCES:
                continue
            if wanted.type is ComponentType.AGENT:
                found.append(_unseen(subject, version, wanted))
            else:
                message = f"{version} is recorded, but {ref.name} is not at {ref.version}: {reason}"
                remedy = "set status.currentVersion to the version that the cluster really has, then start again"
                found.append(_doubt(subject, message, remedy))
        return tuple(found)

    async def plan_hop(
        self, cluster: ClusterKey, outline: PlanOutline, index: int, *, mode: SchedulingMode, slots: int
    ) -> tuple[ClusterFacts, HopPlan]:
        """One hop of a pinned plan, decided from what is there now.

        Raises ClusterNotReady when a finding blocks, InvalidCatalogue when the catalogue has blocked or lost the edge
        since, InvalidRelease when the release is no longer the one that was pinned: the run is then held, never
        re-routed in silence.
        """
        facts = await self._facts(cluster)
        pinned = outline.hops[index]
        edge = await self._open_edge(pinned)
        # Anew, so that a changed bundle holds the hop on every worker, also on one that knows the old bytes.
        try:
            release = await self._shelf.release(pinned.to_version, pinned.release_digest, cluster=cluster, anew=True)
        except (InvalidRelease, InvalidDocument) as error:
            error.release_version = pinned.to_version
            raise
        inputs = await self._inputs(facts, (edge,), (release,), mode, slots)
        plan = plan_upgrade(inputs)
        require_startable(plan)
        hop = plan.hops[0]
        if hop.digest != pinned.digest:
            raise InvalidCatalogue(
                "the hop is no longer the one that was planned",
                subject=f"hop {edge}",
                field="digest",
                value=f"{hop.digest[:12]}, planned {pinned.digest[:12]}",
                remedy="undo the change of the catalogue's checks, then retry; or abort and plan anew",
            )
        return facts, hop

    async def _facts(self, cluster: ClusterKey) -> ClusterFacts:
        facts = await read_cluster(self._clusters.management, cluster)
        if facts.deleting or facts.version_deleting:
            raise ClusterNotReady(
                "the cluster is being deleted",
                subject=facts.subject,
                field="metadata.deletionTimestamp",
                value="set",
                remedy="nothing will be upgraded here any more",
            )
        if not facts.current_version:
            raise ClusterNotReady(
                "nobody has recorded which version the cluster has",
                subject=f"ClusterVersion {cluster}",
                field="status.currentVersion",
                value="",
                remedy="wait until the installation is complete, or set BKECluster status.openFuyaoVersion",
            )
        return facts

    async def _open_edge(self, pinned: HopOutline) -> Edge:
        catalogue = await read_catalogue_of(self._clusters.management)
        for index, edge in enumerate(catalogue.edges):
            if (edge.from_version, edge.to_version) == (pinned.from_version, pinned.to_version):
                if not edge.blocked:
                    return edge
                raise InvalidCatalogue(
                    f"the catalogue has blocked the next hop since the plan was made{_notes(edge)}",
                    subject=f"UpgradePath {catalogue.name}",
                    field=f"spec.paths[{index}].blocked",
                    value="true",
                    remedy="unblock the edge, then retry; or abort: the cluster stays at " + pinned.from_version,
                )
        raise InvalidCatalogue(
            "the catalogue no longer has the next hop of the plan",
            subject=f"UpgradePath {catalogue.name}",
            field="spec.paths",
            value=f"{pinned.from_version} -> {pinned.to_version}",
            remedy="put the edge back, then retry; or abort: the cluster stays at " + pinned.from_version,
        )

    async def _valid_release(self, cluster: ClusterKey, version: str) -> Release:
        try:
            release = await self._shelf.release(version, cluster=cluster)
            require_valid(release, version)
        except (InvalidRelease, InvalidDocument) as error:
            error.release_version = version
            raise
        return release

    async def conflicts(self, cluster: ClusterKey, plan: UpgradePlan) -> tuple[InvalidRelease, ...]:
        """The releases of a plan whose components do not fit each other; each is a finding of the plan as well."""
        releases = [await self._shelf.release(hop.to_version, hop.release_digest, cluster=cluster) for hop in plan.hops]
        return tuple(error for release in releases if (error := conflict_of(release)) is not None)

    async def _current_release(self, cluster: ClusterKey, version: str) -> Release | None:
        """The release that is installed: a claim for the plan, so its absence is no fault."""
        try:
            return await self._shelf.release(version, cluster=cluster)
        except InvalidRelease:
            return None

    async def _inputs(
        self,
        facts: ClusterFacts,
        edges: tuple[Edge, ...],
        releases: tuple[Release, ...],
        mode: SchedulingMode,
        slots: int,
    ) -> PlanningInputs:
        current = await self._current_release(facts.key, facts.current_version) if edges else None
        foreign = tuple([await self._foreign(facts, release) for release in releases])
        sightings = await self._look(facts, releases[0], foreign[0]) if releases else {}
        return PlanningInputs(
            facts=facts,
            edges=edges,
            releases=releases,
            current_release=current,
            sightings=sightings,
            agents_supported=self._clusters.agents is not None,
            mode=mode,
            slots=slots,
            foreign=foreign,
            foreign_provider=self._one_controller.policy.foreign_provider,
        )

    async def _foreign(self, facts: ClusterFacts, release: Release) -> dict[str, str]:
        """Components that would start another controller in the management cluster, with its image."""
        found = await asyncio.to_thread(brought_controllers, release, facts, self._one_controller.policy)
        return found if found and await self._is_management(facts) else {}

    async def _is_management(self, facts: ClusterFacts) -> bool:
        target = await self._clusters.target(facts.key)
        return await target.identity() == await self._clusters.management.identity()

    async def _look(
        self, facts: ClusterFacts, release: Release, foreign: Mapping[str, str]
    ) -> dict[str, ComponentSighting]:
        """What is there of every component of the next hop."""
        target = await self._clusters.target(facts.key)
        emptied = foreign if self._one_controller.policy.foreign_provider is ForeignProvider.SCALE_TO_ZERO else {}
        found = await self._in_turn(
            lambda ref: self._rendered(facts, release, ref, without_pods=ref.name in emptied), release.upgrade
        )
        live = await _read_together(target, [one for one in found if isinstance(one, ComponentObjects)])

        async def look(pair: tuple[ComponentRef, ComponentObjects | ComponentSighting | None]) -> ComponentSighting:
            ref, one = pair
            if isinstance(one, ComponentSighting):
                return one
            if one is not None:
                return await manifests.look(
                    target, one, field_manager=self._field_manager, known=live, seen=self._differences
                )
            return await self._look_elsewhere(target, facts, ref, release.component(ref.name, ref.version))

        seen = await self._in_turn(look, list(zip(release.upgrade, found, strict=True)))
        return {sighting.name: sighting for sighting in seen}

    @staticmethod
    async def _in_turn(call: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R]:
        gate = asyncio.Semaphore(MAX_LOOKS)

        async def one(item: T) -> R:
            async with gate:
                return await call(item)

        return await asyncio.gather(*(one(item) for item in items))

    async def _rendered(
        self, facts: ClusterFacts, release: Release, ref: ComponentRef, *, without_pods: bool
    ) -> ComponentObjects | ComponentSighting | None:
        """The objects of a manifest component, or why they cannot be had; None for every other component."""
        component = release.component(ref.name, ref.version)
        if component is None or type_of(ref, component) is not ComponentType.MANIFEST:
            return None
        try:
            objects = await manifests.render_documents(release, component, facts)
        except PortError as error:
            return ComponentSighting(name=ref.name, presence=Presence.COULD_NOT_LOOK, detail=str(error))
        return objects.without_pods(self._one_controller.policy) if without_pods else objects

    async def _look_elsewhere(
        self, target: ClusterClient, facts: ClusterFacts, ref: ComponentRef, component: ComponentVersion | None
    ) -> ComponentSighting:
        try:
            if type_of(ref, component) in (ComponentType.NODE, ComponentType.AGENT):
                return await self._look_at_nodes(target, facts, ref, component)
        except PortError as error:
            return ComponentSighting(name=ref.name, presence=Presence.COULD_NOT_LOOK, detail=str(error))
        return ComponentSighting(name=ref.name, presence=Presence.ABSENT, detail="runs in every hop")

    @staticmethod
    async def _look_at_nodes(
        target: ClusterClient, facts: ClusterFacts, ref: ComponentRef, component: ComponentVersion | None
    ) -> ComponentSighting:
        inline = inline_of(ref, component)
        handler = handler_of_inline(inline)
        asked = _NodeLevel(ref.name, ref.version, handler.value if handler else "")
        return await sighting(target, facts, asked, pools_of(handler))


async def _read_together(client: ClusterClient, components: Sequence[ComponentObjects]) -> Live:
    """What is live of all components, so that one list serves them all; what cannot be read is left to each of them."""

    async def placed(objects: ComponentObjects) -> list[PlacedObject]:
        try:
            return (await place_objects(client, objects))[0]
        except HoplineError:
            return []

    try:
        targets = [target for some in await side_by_side(placed, components) for target in some]
        return await read_live(client, targets)
    except PortError:
        return {}


def require_startable(plan: UpgradePlan) -> None:
    """A finding that blocks is a refusal. Raises ClusterNotReady with the first one, and how many more there are."""
    if not plan.blocking:
        return
    first, more = plan.blocking[0], len(plan.blocking) - 1
    others = f" (and {more} more findings that block: hopline plan shows them)" if more else ""
    raise ClusterNotReady(
        first.message + others, subject=first.object, field=first.field, value="", remedy=first.remedy
    )


def _doubt(subject: str, message: str, remedy: str) -> Finding:
    return Finding(
        severity=Severity.BLOCKS, object=subject, field="status.currentVersion", message=message, remedy=remedy
    )


def _unseen(subject: str, version: str, agent: Wanted) -> Finding:
    """Nothing in a cluster shows the agent's version: that is no sign against a record."""
    message = (
        f"{version} is recorded, and whether {agent.name} is at {agent.version} cannot be seen: "
        "no node tells the version of its agent"
    )
    return Finding(severity=Severity.WARNS, object=subject, field="status.currentVersion", message=message)


def _notes(edge: Edge) -> str:
    return f" ({edge.notes})" if edge.notes else ""
