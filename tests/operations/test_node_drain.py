"""Draining a simulated node: who goes, who stays, what is in the way, and what the deadline does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hopline.domain.errors import Blocked
from hopline.domain.node_strategy import DrainPolicy, DrainRules
from hopline.domain.resources import DEPLOYMENT, NODE, POD, POD_DISRUPTION_BUDGET, Document, ObjectRef
from hopline.operations.node_cordons import cordon, cordon_owner, is_cordoned, uncordon
from hopline.operations.node_drain import DrainObservation, NodeDrain
from hopline.operations.node_watch import NodePhase
from hopline.ports import ClusterClient
from hopline.sim.journal import EffectType
from hopline.sim.script import ALWAYS, Failure, Verb
from looking import PATIENCE
from operations.conftest import East

RUN = "cluster-upgrade/east/east"
HOME = "kube-system"


class Shop:
    """A workload on the simulated cluster, and a node that is drained of it."""

    def __init__(self, east: East, target: ClusterClient) -> None:
        self.east, self.target = east, target

    async def deploy(self, replicas: int = 10, name: str = "web") -> None:
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": HOME}}
        await self.target.create({**document, "spec": spec}, kind=DEPLOYMENT)
        async with asyncio.timeout(PATIENCE):
            while len(await self.pods(name)) < replicas:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def pods(self, name: str = "web", node: str = "") -> list[Document]:
        fields = f"spec.nodeName={node}" if node else ""
        return (await self.target.list(POD, kube_namespace=HOME, labels=f"app={name}", fields=fields)).items

    async def bare(self, name: str, node: str, **spec: Any) -> None:
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": HOME}}
        containers = [{"name": "c", "image": "i:1", **spec.pop("container", {})}]
        await self.target.create({**document, "spec": {"nodeName": node, "containers": containers, **spec}}, kind=POD)

    async def budget(self, name: str = "web", **spec: Any) -> None:
        document = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        metadata = {"name": name, "namespace": HOME}
        body = {**document, "metadata": metadata, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
        await self.target.create(body, kind=POD_DISRUPTION_BUDGET)

    async def drop_budget(self, name: str = "web") -> None:
        await self.target.delete(ObjectRef(kind=POD_DISRUPTION_BUDGET, name=name, kube_namespace=HOME))

    async def ready(self, pod: Document, *, ready: bool) -> None:
        ref = ObjectRef(kind=POD, name=pod["metadata"]["name"], kube_namespace=HOME)
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        await self.target.patch(ref, {"status": {"conditions": [condition]}}, subresource="status")

    async def node(self, name: str) -> Document:
        return await self.target.get(ObjectRef(kind=NODE, name=name))

    def drain(self, node: str, policy: DrainPolicy = DrainPolicy.WAIT, *, seconds: float = 30.0) -> NodeDrain:
        rules = DrainRules(policy=policy, timeout_seconds=seconds)
        return NodeDrain(self.target, node, rules, datetime.now(UTC) + timedelta(seconds=seconds), RUN)

    def evictions(self) -> int:
        return self.target.requests[Verb.EVICT]  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
async def shop(east: East) -> Shop:
    return Shop(east, await east.target())


async def until_ended(drain: NodeDrain, *, seconds: float = 15.0) -> DrainObservation:
    return await drain.carry_on(DrainObservation(), timeout_seconds=seconds, quiet_seconds=seconds)


async def test_pods_leave_the_node_and_run_elsewhere(shop: Shop) -> None:
    await shop.deploy()
    crowd = await shop.pods(node="w1")
    assert crowd
    await cordon(shop.target, "w1", RUN)
    seen = await until_ended(shop.drain("w1"))
    assert (seen.phase, seen.message) == (NodePhase.DONE, "w1 is drained")
    assert await shop.pods(node="w1") == []
    assert len(await shop.pods()) == 10
    assert shop.evictions() >= len(crowd)
    staying = (await shop.target.list(POD, fields="spec.nodeName=w1")).items
    assert {one["metadata"]["ownerReferences"][0]["kind"] for one in staying} == {"DaemonSet"}


async def test_a_drained_control_plane_node_keeps_its_static_pods(shop: Shop) -> None:
    await shop.deploy()
    await cordon(shop.target, "m1", RUN)
    assert (await until_ended(shop.drain("m1"))).phase is NodePhase.DONE
    staying = (await shop.target.list(POD, fields="spec.nodeName=m1")).items
    assert "kube-apiserver-m1" in {one["metadata"]["name"] for one in staying}


async def test_a_budget_that_blocks_is_named_and_waited_for(shop: Shop) -> None:
    await shop.deploy()
    other = next(pod for pod in await shop.pods() if pod["spec"]["nodeName"] != "w1")
    await shop.ready(other, ready=False)
    await shop.budget(minAvailable=9)
    await cordon(shop.target, "w1", RUN)
    drain = shop.drain("w1")
    seen = await drain.carry_on(DrainObservation(), timeout_seconds=0.5)
    seen = await drain.carry_on(seen, timeout_seconds=0.5)
    assert seen.phase is NodePhase.WAITING
    assert "its disruption budget does not allow it now" in seen.message
    assert "The disruption budget web needs 9 healthy pods" in seen.message
    asked = shop.evictions()
    await shop.ready(other, ready=True)
    assert (await until_ended(drain)).phase is NodePhase.DONE
    assert asked <= 4


async def test_a_hopeless_budget_costs_no_request_and_stops_before_the_first_eviction(shop: Shop) -> None:
    await shop.deploy()
    await shop.deploy(name="innocent")
    await shop.budget(maxUnavailable=0)
    before = len(await shop.pods("innocent", node="w1"))
    await cordon(shop.target, "w1", RUN)
    drain = shop.drain("w1")
    seen = await drain.carry_on(DrainObservation(), timeout_seconds=0.5, quiet_seconds=0.4)
    assert "nothing is evicted from w1" in seen.message
    assert "PodDisruptionBudget kube-system/web: it needs 10 healthy pods and there are 10" in seen.message
    assert (shop.evictions(), len(await shop.pods("innocent", node="w1"))) == (0, before)
    await shop.drop_budget()
    assert (await until_ended(drain)).phase is NodePhase.DONE


async def test_a_bare_pod_stops_the_drain_and_is_named(shop: Shop) -> None:
    await shop.bare("lonely", "w1")
    await cordon(shop.target, "w1", RUN)
    seen = await until_ended(shop.drain("w1", seconds=0.5))
    assert seen.phase is NodePhase.FAILED
    assert "pod kube-system/lonely: it has no controller" in seen.message
    assert shop.evictions() == 0


async def test_skip_leaves_what_cannot_go_and_says_so(shop: Shop) -> None:
    await shop.deploy()
    await shop.budget(maxUnavailable=0)
    await shop.bare("lonely", "w1")
    await cordon(shop.target, "w1", RUN)
    seen = await until_ended(shop.drain("w1", DrainPolicy.SKIP))
    assert seen.phase is NodePhase.DONE
    assert any("lonely" in one for one in seen.left)
    assert any("could not be evicted" in one for one in seen.left)


async def test_skip_never_leaves_a_pod_with_devices(shop: Shop) -> None:
    await shop.deploy()
    await shop.budget(maxUnavailable=0)
    for pod in await shop.pods(node="w1"):
        ref = ObjectRef(kind=POD, name=pod["metadata"]["name"], kube_namespace=HOME)
        limits = {"resources": {"limits": {"example.com/gpu": "1"}}}
        await shop.target.patch(ref, {"spec": {"containers": [{"name": "c", "image": "i:1", **limits}]}})
    await cordon(shop.target, "w1", RUN)
    seen = await until_ended(shop.drain("w1", DrainPolicy.SKIP, seconds=0.5))
    assert seen.phase is NodePhase.FAILED
    assert "holds example.com/gpu" in seen.message


async def test_force_deletes_what_the_budget_holds_back(shop: Shop) -> None:
    await shop.deploy()
    await shop.budget(maxUnavailable=0)
    await shop.bare("lonely", "w1")
    await cordon(shop.target, "w1", RUN)
    seen = await until_ended(shop.drain("w1", DrainPolicy.FORCE, seconds=0.5))
    assert seen.phase is NodePhase.DONE
    assert await shop.pods(node="w1") == []


async def test_after_the_deadline_nothing_is_evicted(shop: Shop) -> None:
    await shop.deploy()
    await cordon(shop.target, "w1", RUN)
    seen = await until_ended(shop.drain("w1", seconds=-1.0))
    assert seen.phase is NodePhase.FAILED
    assert shop.evictions() == 0
    assert await shop.pods(node="w1")


async def test_nothing_is_evicted_from_a_node_that_somebody_has_uncordoned(shop: Shop) -> None:
    await shop.deploy()
    await cordon(shop.target, "w1", RUN)
    await shop.target.patch(ObjectRef(kind=NODE, name="w1"), {"spec": {"unschedulable": None}})
    seen = await until_ended(shop.drain("w1"))
    assert (seen.phase, shop.evictions()) == (NodePhase.FAILED, 0)
    assert "somebody has uncordoned w1" in seen.message


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Failure.REJECTED, "an admission webhook refuses it"),
        (Failure.FORBIDDEN, "this account may not evict it"),
        (Failure.TRANSIENT, "the API server gave no answer"),
        (Failure.BLOCKED, "its disruption budget does not allow it now"),
    ],
)
async def test_refusals_are_told_apart(shop: Shop, failure: Failure, words: str) -> None:
    await shop.deploy()
    await cordon(shop.target, "w1", RUN)
    shop.east.clusters.script.fail_request(failure, verb=Verb.EVICT, cluster=shop.east.key, times=ALWAYS)
    seen = await until_ended(shop.drain("w1", seconds=0.5))
    assert seen.phase is NodePhase.FAILED
    assert words in seen.message


async def test_the_ledger_gives_back_only_our_cordon(shop: Shop) -> None:
    node = await cordon(shop.target, "w1", RUN)
    assert (is_cordoned(node), cordon_owner(node)) == (True, RUN)
    writes = len(shop.east.clusters.journal(EffectType.WRITE))
    await cordon(shop.target, "w1", RUN)
    assert len(shop.east.clusters.journal(EffectType.WRITE)) == writes
    assert not (await uncordon(shop.target, "w1", "cluster-upgrade/west/west")).gave_back
    given = await uncordon(shop.target, "w1", RUN)
    assert (given.gave_back, given.note) == (True, "")
    node = await shop.node("w1")
    assert (is_cordoned(node), cordon_owner(node)) == (False, "")
    assert not (await uncordon(shop.target, "w1", RUN)).gave_back


def persons_cordon(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}


async def test_the_cordon_of_a_person_is_refused_by_name(shop: Shop) -> None:
    await shop.target.apply(persons_cordon("w1"), kind=NODE, field_manager="kubectl")
    with pytest.raises(Blocked) as caught:
        await cordon(shop.target, "w1", RUN)
    assert "kubectl at " in caught.value.message
    assert caught.value.remedy == "kubectl uncordon w1"
    with pytest.raises(Blocked) as caught:
        await cordon(shop.target, "w2", "other-run")
        await cordon(shop.target, "w2", RUN)
    assert "the run other-run has it in hand" in caught.value.message


async def test_what_a_person_did_to_our_cordon_stays_and_is_told(shop: Shop) -> None:
    await cordon(shop.target, "w1", RUN)
    ref = ObjectRef(kind=NODE, name="w1")
    await shop.target.patch(ref, {"spec": {"unschedulable": None}})
    assert "uncordoned w1" in (await uncordon(shop.target, "w1", RUN)).note
    await cordon(shop.target, "w2", RUN)
    await shop.target.patch(ObjectRef(kind=NODE, name="w2"), {"spec": {"unschedulable": None}})
    await shop.target.apply(persons_cordon("w2"), kind=NODE, field_manager="kubectl")
    given = await uncordon(shop.target, "w2", RUN)
    assert "kubectl at " in given.note
    assert "it stays cordoned" in given.note
    node = await shop.node("w2")
    assert (is_cordoned(node), cordon_owner(node)) == (True, "")
