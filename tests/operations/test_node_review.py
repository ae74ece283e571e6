"""What a plan says about nodes: waves, drains, and what stands in the way, before anything is touched."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hopline.domain.node_strategy import DrainPolicy, DrainRules, DrainWish, WaveStrategy
from hopline.domain.plan import Action, ComponentType, HopPlan, PlannedComponent, Pool, Severity, UpgradePlan
from hopline.domain.pods import is_ready
from hopline.domain.release import InlineHandler
from hopline.domain.resources import DEPLOYMENT, NODE, POD, POD_DISRUPTION_BUDGET, Document, ObjectRef
from hopline.operations.node_cordons import cordon
from hopline.operations.node_review import NodeReview
from hopline.ports import ClusterClient
from looking import PATIENCE
from operations.conftest import East

WAIT = DrainRules(policy=DrainPolicy.WAIT)


def planned(handler: InlineHandler, pool: Pool, **fields: Any) -> PlannedComponent:
    given = {"name": handler.value, "version": "v2", "type": ComponentType.NODE, "handler": handler.value}
    return PlannedComponent(**{**given, "pools": (pool,), **fields})


def plan_of(east: East, *components: PlannedComponent) -> UpgradePlan:
    hop = HopPlan(from_version="v1", to_version="v2", components=components)
    return UpgradePlan(cluster=east.key, from_version="v1", to_version="v2", hops=(hop,))


async def review(east: East, *components: PlannedComponent, settings: DrainRules = WAIT) -> UpgradePlan:
    return await NodeReview(east.clusters, settings).review(await east.facts(), plan_of(east, *components))


async def pod(target: ClusterClient, name: str, node: str, **spec: Any) -> None:
    document: Document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
    containers = [{"name": "c", "image": "i:1"}]
    await target.create({**document, "spec": {"nodeName": node, "containers": containers, **spec}}, kind=POD)


async def tight_shop(target: ClusterClient) -> None:
    """A workload on every node, under a budget that never lets a pod go."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"replicas": 8, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "namespace": "kube-system"}
    await target.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}, kind=DEPLOYMENT
    )
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata}
    await target.create(
        {**budget, "spec": {"selector": {"matchLabels": labels}, "maxUnavailable": 0}}, kind=POD_DISRUPTION_BUDGET
    )
    ref = ObjectRef(kind=POD_DISRUPTION_BUDGET, name="web", kube_namespace="kube-system")
    async with asyncio.timeout(PATIENCE):
        while ((await target.get(ref))["status"]["expectedPods"], await ready(target)) != (8, 8):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def ready(target: ClusterClient) -> int:
    """Pods of the shop that are ready."""
    pods = await target.list(POD, kube_namespace="kube-system", labels="app=web")
    return sum(is_ready(one) for one in pods.items)


WORKERS = planned(InlineHandler.WORKER, Pool.WORKERS, strategy=WaveStrategy(batch_size=2, canary=1))
MASTERS = planned(InlineHandler.MASTER, Pool.CONTROL_PLANE, strategy=WaveStrategy(batch_size=3))


async def test_waves_are_named(east: East) -> None:
    plan = await review(east, MASTERS, WORKERS, planned(InlineHandler.ETCD, Pool.CONTROL_PLANE))
    masters, workers, etcd = plan.hops[0].components
    assert masters.waves == (("m1",), ("m2",), ("m3",))
    assert workers.waves == (("w1",), ("w2", "w3"), ("w4", "w5"))
    assert [one.node for one in workers.drain] == ["w1", "w2", "w3", "w4", "w5"]
    assert (etcd.waves, etcd.drain) == ((("m1",), ("m2",), ("m3",)), ())
    assert plan.findings == ()
    document = plan.model_dump(mode="json")["hops"][0]["components"][1]
    assert document["waves"][1] == ["w2", "w3"]
    assert set(document["drain"][0]) == {"node", "evict", "stay", "blocked"}


async def test_a_hopeless_budget_blocks_the_start_and_is_named(east: East) -> None:
    await tight_shop(await east.target())
    plan = await review(east, WORKERS)
    [finding] = plan.blocking
    assert "PodDisruptionBudget kube-system/web: it needs 8 healthy pods and there are 8" in finding.message
    assert "HOPLINE_DRAIN" in finding.remedy
    drain = next(one for one in plan.hops[0].components[0].drain if one.node == "w1")
    assert drain.evict
    assert "PodDisruptionBudget kube-system/web" in drain.blocked[0]


@pytest.mark.parametrize(
    ("policy", "words"), [(DrainPolicy.SKIP, "left running"), (DrainPolicy.FORCE, "deleted past it")]
)
async def test_a_policy_that_goes_past_it_only_warns(east: East, policy: DrainPolicy, words: str) -> None:
    await tight_shop(await east.target())
    wish = DrainWish(policy=policy)
    plan = await review(east, WORKERS.model_copy(update={"drain_rules": wish}))
    assert plan.blocking == ()
    assert [one for one in plan.findings if one.severity is Severity.WARNS and words in one.message]


async def test_bare_pods_pods_that_stay_and_data_that_goes_are_named(east: East) -> None:
    target = await east.target()
    await pod(target, "lonely", "w1")
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    limits = {"resources": {"limits": {"example.com/gpu": "1"}}}
    await pod(target, "driver", "w2", tolerations=[toleration], containers=[{"name": "c", "image": "i:1", **limits}])
    plan = await review(east, WORKERS)
    [blocking] = plan.blocking
    assert "pod default/lonely on w1 can never be evicted: it has no controller" in blocking.message
    assert [one for one in plan.findings if "pod default/driver (example.com/gpu)" in one.message]


async def test_the_cordon_of_a_person_is_named_and_ours_is_not(east: East) -> None:
    target = await east.target()
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}, "spec": {"unschedulable": True}}
    await target.apply(document, kind=NODE, field_manager="kubectl")
    await cordon(target, "w2", "cluster-upgrade/east/east")
    [finding] = (await review(east, WORKERS)).blocking
    assert finding.object == "Node w1"
    assert "kubectl at " in finding.message
    assert finding.remedy == "kubectl uncordon w1"


async def test_without_drains_nothing_is_looked_at(east: East) -> None:
    await tight_shop(await east.target())
    skipped = planned(InlineHandler.CONTAINERD, Pool.WORKERS, action=Action.SKIP)
    plan = await review(east, WORKERS, skipped, settings=DrainRules())
    assert (plan.findings, plan.hops[0].components[0].drain) == ((), ())
    assert plan.hops[0].components[1].waves == ()
