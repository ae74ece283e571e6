"""The hops that are measured: a chain of no-op components, and the sample hop of deploy/examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hopline.documents.bundles import parse_bundle
from hopline.domain.cluster import ClusterFacts
from hopline.domain.plan import ComponentType, HopPlan, PlannedComponent, UpgradePlan
from hopline.domain.planner import PlanningInputs, plan_upgrade
from hopline.domain.release import Release
from hopline.domain.upgrade_graph import UpgradeGraph
from hopline.domain.wire import ClusterKey
from hopline.files.objects import read_objects
from hopline.files.releases import DirectoryReleaseSource

EXAMPLES = Path(__file__).parent.parent / "deploy" / "examples"
STEP_SECONDS = 1


def chain_hop(count: int) -> HopPlan:
    """`count` manifest components, each after the one before."""
    names = [f"component-{index:02d}" for index in range(count)]
    components = tuple(
        PlannedComponent(
            name=name,
            version="v2",
            current="v1",
            type=ComponentType.MANIFEST,
            record_version="v2",
            dependencies=(names[index - 1],) if index else (),
        )
        for index, name in enumerate(names)
    )
    return HopPlan(
        from_version="v1",
        to_version="v2",
        release_name="release-v2",
        batches=tuple((name,) for name in names),
        components=components,
    )


async def sample_plan(durations: Mapping[str, int] | None = None) -> UpgradePlan:
    """Both hops of the sample cluster, from files alone."""
    objects = read_objects([EXAMPLES / "cluster.yaml", EXAMPLES / "upgrade-paths.yaml"])
    facts: ClusterFacts = objects.cluster(ClusterKey(kube_namespace="east", name="east"))
    edges = UpgradeGraph(objects.catalogue()).require_path(facts.current_version, "v26.06").hops
    source = DirectoryReleaseSource(EXAMPLES / "releases")
    releases: list[Release] = [parse_bundle(await source.fetch(edge.to_version)) for edge in edges]
    return plan_upgrade(
        PlanningInputs(facts=facts, edges=tuple(edges), releases=tuple(releases), durations=durations or {})
    )


async def sample_hop() -> HopPlan:
    """The second hop, in which every component has work, planned with steps of one second."""
    plan = await sample_plan()
    names = [component.name for component in plan.hops[1].components]
    return (await sample_plan(dict.fromkeys(names, STEP_SECONDS))).hops[1]
