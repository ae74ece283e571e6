"""The annotation `bke.bocloud.com/retry`: nodes by address, held hops, and what it means when nothing is held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hooked_clusters import Gate, HookedClusters, applying
from hopline.domain.cluster import FAILED_BIT
from hopline.domain.errors import InvalidInput
from hopline.domain.resources import (
    ANNOTATION_HANDLED,
    ANNOTATION_RETRY,
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    LABEL_CLUSTER_NAME,
    Document,
    ObjectRef,
)
from hopline.domain.status import RunState, UpgradeStatus
from hopline.sim.script import Failure, Verb
from small_lab import FINAL, GRAPH, RC2, RC3, SmallLab
from starter.watcher import Watcher
from workflows.messages import AbortRequest, RetryRequest

pytestmark = pytest.mark.slow

NOBODY = "192.0.2.250"


@asynccontextmanager
async def watching(lab: SmallLab, clusters: HookedClusters | None = None) -> AsyncIterator[None]:
    task = asyncio.create_task(Watcher(lab.clusters.management, lab.requests).run())
    try:
        async with lab.worker(clusters=clusters) if clusters else lab.worker():
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def nodes(lab: SmallLab) -> list[Document]:
    labels = f"{LABEL_CLUSTER_NAME}={lab.cluster.name}"
    listing = await lab.clusters.management.list(BKE_NODE, kube_namespace="east", labels=labels)
    return [*listing.items]


async def give_up(lab: SmallLab) -> list[str]:
    """Every node is left as one that has failed too often; their addresses."""
    for node in await nodes(lab):
        status = {"stateCode": node["status"]["stateCode"] | FAILED_BIT, "needSkip": True, "retryCount": 10}
        ref = ObjectRef(kind=BKE_NODE, name=node["metadata"]["name"], kube_namespace="east")
        await lab.clusters.management.patch(ref, {"status": status}, subresource="status")
    return [node["spec"]["ip"] for node in await nodes(lab)]


async def marked(lab: SmallLab) -> set[str]:
    """Addresses of the nodes that still carry any mark of a failure."""
    return {
        node["spec"]["ip"]
        for node in await nodes(lab)
        if node["status"]["stateCode"] & FAILED_BIT
        or node["status"].get("needSkip")
        or node["status"].get("retryCount")
    }


def reject(lab: SmallLab) -> None:
    script = lab.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=lab.cluster, name="left", times=1)


async def desire(lab: SmallLab, version: str) -> int:
    found = await lab.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": version}})
    return int(found["metadata"]["generation"])


async def handled(lab: SmallLab, mark: str) -> None:
    await lab.until_version(lambda one: one["metadata"].get("annotations", {}).get(ANNOTATION_HANDLED) == mark)


async def held(lab: SmallLab) -> UpgradeStatus:
    """The first hold of a run that the watcher has started."""
    await lab.until_version(lambda one: one["status"]["phase"] == "Failed")
    status: UpgradeStatus = await lab.held()
    return status


async def told(lab: SmallLab, reason: str, count: int = 1) -> list[Document]:
    found: list[Document] = await lab.until_seen(lambda: lab.events(reason), lambda found: len(found) >= count)
    return found


async def heard(lab: SmallLab) -> None:
    """The annotation is removed."""
    await lab.until_record(lambda one: ANNOTATION_RETRY not in one["metadata"].get("annotations", {}))


async def retry(lab: SmallLab, value: str = "") -> None:
    await lab.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: value})


async def test_it_revives_the_named_nodes_and_the_held_hop_goes_on(small: SmallLab) -> None:
    reject(small)
    async with watching(small):
        generation = await desire(small, RC3)
        await held(small)
        first, second = await give_up(small)
        await retry(small, first)
        await handled(small, f"{generation}/Done")
    assert await marked(small) == {second}
    (event,) = await small.events("NodesRevived")
    assert first in event["message"]
    assert second not in event["message"]
    assert event["involvedObject"]["kind"] == BKE_CLUSTER.kind
    assert ANNOTATION_RETRY not in await small.annotations()
    assert [len(small.applied(name)) for name in GRAPH] == [1, 1, 1, 1], "what was done is not done again"


@pytest.mark.parametrize("by_terminal", [False, True])
async def test_an_empty_one_revives_all_nodes(small: SmallLab, by_terminal: bool) -> None:
    reject(small)
    async with watching(small):
        generation = await desire(small, RC3)
        await held(small)
        addresses = await give_up(small)
        if by_terminal:
            answer = await small.requests.retry(small.cluster, RetryRequest())
            assert all(address in answer.message for address in addresses)
        else:
            await retry(small)
        await handled(small, f"{generation}/Done")
    assert not await marked(small)


async def test_an_unknown_node_is_answered_and_the_hop_stays_held(small: SmallLab) -> None:
    reject(small)
    async with watching(small):
        generation = await desire(small, RC3)
        before = await held(small)
        addresses = await give_up(small)
        await retry(small, f"{addresses[0]},{NOBODY}")
        (event,) = await told(small, "RetryRefused")
        await heard(small)
        assert event["type"] == "Warning"
        for part in (
            f"has the address {NOBODY}",
            f"BKECluster {small.cluster} metadata.annotations[{ANNOTATION_RETRY}] is '{addresses[0]},{NOBODY}'",
            f"kubectl annotate --overwrite bkecluster {small.cluster.name} -n east {ANNOTATION_RETRY}={addresses[0]}",
        ):
            assert part in event["message"]
        assert await marked(small) == {*addresses}, "nothing is done by halves"
        status = await small.status()
        assert (status.state, status.since) == (RunState.HELD, before.since)
        with pytest.raises(InvalidInput, match=NOBODY):
            await small.requests.retry(small.cluster, RetryRequest(nodes=(NOBODY,)))
        await retry(small, f"{addresses[0]}, {addresses[1]}")
        await handled(small, f"{generation}/Done")
    assert not await marked(small)


async def test_the_same_annotation_is_heard_each_time_that_it_is_set(small: SmallLab) -> None:
    script = small.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=small.cluster, name="left", times=2)
    async with watching(small):
        generation = await desire(small, RC3)
        before = await held(small)
        await retry(small)
        await small.held_again(before)
        await heard(small)
        await retry(small)
        await handled(small, f"{generation}/Done")
    assert len(await small.events("UpgradeResumed")) == 2


async def test_without_a_run_or_a_wish_it_revives_and_says_that_nothing_is_held(small: SmallLab) -> None:
    await desire(small, RC2)
    async with watching(small):
        first, second = await give_up(small)
        await retry(small, second)
        (event,) = await told(small, "RetryAnswered")
        await heard(small)
        assert f"nothing is held: {RC2} is recorded, and no other version is asked for" in event["message"]
        assert await marked(small) == {first}
        await retry(small, NOBODY)
        await told(small, "RetryRefused")
        await heard(small)
    assert await marked(small) == {first}
    assert await small.requests.describe(small.cluster) is None


async def test_in_a_run_that_goes_on_it_says_so(small: SmallLab) -> None:
    gate = Gate(applying("top"))
    async with watching(small, HookedClusters(small.clusters, before=gate)):
        generation = await desire(small, RC3)
        await gate.reached()
        await give_up(small)
        await retry(small)
        (event,) = await told(small, "RetryAnswered")
        assert f"nothing is held: the upgrade to {RC3} is Running" in event["message"]
        await heard(small)
        assert not await marked(small)
        gate.open()
        await handled(small, f"{generation}/Done")
    assert not await small.events("UpgradeResumed")


async def test_after_an_abort_it_plans_the_declared_wish_again(small: SmallLab) -> None:
    reject(small)
    async with watching(small):
        generation = await desire(small, RC3)
        await held(small)
        await small.requests.abort(small.cluster, AbortRequest(reason="not tonight"))
        await handled(small, f"{generation}/Aborted")
        first, second = await give_up(small)
        await retry(small, NOBODY)
        await told(small, "RetryRefused")
        await heard(small)
        assert small.end_state(await small.version()) == (RC2, "Failed")
        await retry(small, f"{first},{second}")
        await handled(small, f"{generation}/Done")
    assert not await marked(small)
    assert ANNOTATION_RETRY not in await small.annotations()
    assert not await small.events("RetryAnswered")


async def test_after_a_termination_it_plans_the_declared_wish_again(small: SmallLab) -> None:
    reject(small)
    async with watching(small):
        generation = await desire(small, FINAL)
        await held(small)
        await small.handle.terminate("a person ended it by hand")
        await retry(small)
        await handled(small, f"{generation}/Done")
    assert ANNOTATION_RETRY not in await small.annotations()


async def test_a_wish_that_is_refused_again_takes_the_annotation_with_it(small: SmallLab) -> None:
    await small.patch(BKE_CLUSTER, {"spec": {"pause": True}})
    async with watching(small):
        generation = await desire(small, RC3)
        await handled(small, f"{generation}/Refused")
        await give_up(small)
        await retry(small)
        (event,) = await told(small, "RetryAnswered")
        await heard(small)
        assert f"the upgrade to {RC3} was planned again, and is refused: the cluster is paused" in event["message"]
        assert not await marked(small)
        await small.patch(BKE_CLUSTER, {"spec": {"pause": False}})
        await handled(small, f"{generation}/Done")
