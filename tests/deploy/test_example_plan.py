"""The shipped examples, read as `hopline plan -f` reads them: two hops, six batches each, nothing to object to."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hopline.documents.bundles import parse_bundle
from hopline.domain.plan import Action, UpgradePlan
from hopline.domain.planner import PlanningInputs, plan_upgrade
from hopline.domain.release import Release
from hopline.domain.release_rules import release_findings
from hopline.domain.step_graph import build_graph
from hopline.domain.upgrade_graph import UpgradeGraph
from hopline.files.objects import read_objects
from hopline.files.releases import DirectoryReleaseSource

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
VERSIONS = ("v26.06-rc.2", "v26.06-rc.3", "v26.06")


async def example(version: str) -> Release:
    return parse_bundle(await DirectoryReleaseSource(EXAMPLES / "releases").fetch(version))


async def example_plan() -> UpgradePlan:
    objects = read_objects([EXAMPLES / "cluster.yaml", EXAMPLES / "upgrade-paths.yaml"])
    (cluster,) = objects.clusters()
    edges = UpgradeGraph(objects.catalogue()).find_path(VERSIONS[0], VERSIONS[-1]).hops
    return plan_upgrade(
        PlanningInputs(
            facts=objects.cluster(cluster),
            edges=edges,
            releases=tuple([await example(edge.to_version) for edge in edges]),
            current_release=await example(VERSIONS[0]),
        )
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_releases_are_clean(version: str) -> None:
    assert release_findings(await example(version), version) == ()


async def test_plan_walks_both_hops_in_the_six_batches_of_the_guide() -> None:
    plan = await example_plan()
    assert [(hop.from_version, hop.to_version) for hop in plan.hops] == list(itertools.pairwise(VERSIONS))
    assert plan.findings == ()
    for hop in plan.hops:
        assert hop.batches == (
            ("provider",),
            ("bkeagent",),
            ("containerd",),
            ("etcd",),
            ("kubernetes-master", "kubernetes-worker"),
            ("calico", "coredns", "kube-proxy"),
        )
        declared = {component.name: component.dependencies for component in hop.components}
        assert build_graph(declared, declared).batches() == hop.batches, "no edge but the declared ones"


async def test_only_etcd_is_up_to_date_in_the_first_hop() -> None:
    plan = await example_plan()
    skipped = [[one.name for one in hop.components if one.action is Action.SKIP] for hop in plan.hops]
    assert skipped == [["etcd"], []]
    assert "recorded, not verified" in plan.hops[0].component("etcd").reason
    assert plan.hops[1].targets["etcdVersion"] == "v3.6.8-of.1"
