"""A target cluster that cannot be reached in mid-run: the run waits, says for what, and goes on by itself."""

from __future__ import annotations

from typing import Any

import pytest

from hooked_clusters import Call, HookedClusters, applying
from hopline.domain.errors import ClusterNotReady
from hopline.domain.resources import COMMAND, SECRET, Document, ObjectRef
from hopline.domain.status import RunState
from small_lab import FINAL, GRAPH, RC3, SmallLab, SmallLabFactory, strategy
from workflows.messages import AbortRequest

pytestmark = pytest.mark.slow


class KubeconfigSecret:
    """The Secret by which the simulated cluster is reached."""

    def __init__(self, lab: SmallLab) -> None:
        self._lab = lab
        name = f"{lab.cluster.name}-kubeconfig"
        self.ref = ObjectRef(kind=SECRET, name=name, kube_namespace=lab.cluster.kube_namespace)
        self._kept: Document = {}

    async def take_away(self) -> None:
        self._kept = await self._lab.clusters.management.get(self.ref)
        await self._lab.clusters.management.delete(self.ref)

    async def bring_back(self) -> None:
        kept = {key: value for key, value in self._kept.items() if key != "metadata"}
        metadata = {"name": self.ref.name, "namespace": self.ref.kube_namespace}
        await self._lab.clusters.management.create({**kept, "metadata": metadata}, kind=SECRET)


def ready(version: Document) -> dict[str, Any]:
    return next(one for one in version["status"]["conditions"] if one["type"] == "Ready")


async def waits(lab: SmallLab) -> Document:
    """The ClusterVersion says that the run waits for the cluster, and so does an event."""
    seen = await lab.until_version(lambda one: ready(one)["reason"] == "TargetUnreachable")
    assert seen["status"]["phase"] == "Upgrading", "it is not held"
    await lab.until_seen(lambda: lab.events("TargetUnreachable"), lambda found: len(found) == 1)
    return seen


async def went_on(lab: SmallLab) -> None:
    """It has told that it goes on, was never held, and nothing ran twice."""
    assert len(await lab.events("TargetUnreachable")) == 1
    assert len(await lab.events("TargetReachable")) == 1
    assert not await lab.events("UpgradeHeld")


async def test_a_secret_that_goes_away_is_waited_for(small: SmallLab) -> None:
    secret = KubeconfigSecret(small)

    async def after(call: Call) -> None:
        if applying("base")(call):
            await secret.take_away()

    async with small.worker(clusters=HookedClusters(small.clusters, after=after)):
        handle = await small.start(RC3)
        seen = await waits(small)
        for part in ("cannot be reached: the cluster has no kubeconfig Secret", str(secret.ref), "remedy: write"):
            assert part in ready(seen)["message"]
        status = await small.status()
        assert (status.state, status.reason) == (RunState.RUNNING, "TargetUnreachable")
        await secret.bring_back()
        await handle.result()
    await went_on(small)
    assert ready(await small.version())["reason"] == "UpgradeComplete"
    assert [len(small.applied(name)) for name in GRAPH] == [1, 1, 1, 1]


async def test_an_outage_does_not_count_for_the_deadline_of_a_component(make_small: SmallLabFactory) -> None:
    lab = await make_small({"base": ()}, prepare=strategy("base", timeout="3s"))
    faults: list[int] = []

    def before(call: Call) -> None:
        if applying("base")(call) and not faults:
            faults.append(lab.clusters.script.unreachable(lab.cluster))

    async with lab.worker(clusters=HookedClusters(lab.clusters, before=before)):
        handle = await lab.start(RC3)
        seen = await waits(lab)
        assert "connection refused by the simulated API server" in ready(seen)["message"]
        hits = lab.clusters.script.hits(faults[0])
        await lab.until_seen(_hits(lab, faults[0]), lambda seen: seen > hits + 2)
        lab.clusters.script.clear(faults[0])
        await handle.result()
    await went_on(lab)


def _hits(lab: SmallLab, fault: int) -> Any:
    async def look() -> int:
        return lab.clusters.script.hits(fault)

    return look


async def test_the_check_at_the_end_of_a_hop_and_the_plan_of_the_next_one_wait_too(small: SmallLab) -> None:
    secret = KubeconfigSecret(small)
    taken: list[str] = []

    async def after(call: Call) -> None:
        if applying("top")(call) and not taken:
            taken.append("check")
            await secret.take_away()
        elif call.verb == "patch" and call.subresource == "status" and taken == ["check"] and _closes(call):
            taken.append("plan")
            await secret.take_away()

    async with small.worker(clusters=HookedClusters(small.clusters, after=after)):
        handle = await small.start(FINAL)
        for count in (1, 2):
            await small.until_seen(lambda: small.events("TargetUnreachable"), lambda found: len(found) == count)  # noqa: B023
            await secret.bring_back()
        await handle.result()
    assert taken == ["check", "plan"]
    assert len(await small.events("TargetReachable")) == 2
    assert not await small.events("UpgradeHeld")
    assert small.end_state(await small.version()) == (FINAL, "Ready")


def _closes(call: Call) -> bool:
    return call.subject.startswith("ClusterVersion") and call.body["status"].get("currentVersion") == RC3


async def test_an_abort_ends_the_waiting(small: SmallLab) -> None:
    secret = KubeconfigSecret(small)

    async def after(call: Call) -> None:
        if applying("base")(call):
            await secret.take_away()

    async with small.worker(clusters=HookedClusters(small.clusters, after=after)):
        await small.start(RC3)
        await waits(small)
        await small.requests.abort(small.cluster, AbortRequest(reason="not tonight"))
        assert (await small.end()).type == "Aborted"
    assert not await small.events("TargetReachable")


async def test_node_work_waits_too(sample: SmallLab) -> None:
    secret = KubeconfigSecret(sample)
    taken: list[str] = []

    async def after(call: Call) -> None:
        if call.verb == "create" and call.subject.startswith(COMMAND.kind) and not taken:
            taken.append(call.subject)
            await secret.take_away()

    async with sample.worker(clusters=HookedClusters(sample.clusters, after=after)):
        handle = await sample.start(RC3)
        await waits(sample)
        await secret.bring_back()
        await handle.result()
    assert taken
    await went_on(sample)


async def test_a_node_that_is_done_waits_for_its_cordon_to_be_given_back(sample: SmallLab) -> None:
    """The last write of a node's turn is on the target: the node is not called failed because nobody could write it."""
    secret = KubeconfigSecret(sample)
    taken: list[str] = []

    async def before(call: Call) -> None:
        if _gives_back(call) and not taken:
            taken.append(call.subject)
            await secret.take_away()
            raise ClusterNotReady("the cluster has no kubeconfig Secret", subject=str(secret.ref))

    async with sample.worker(clusters=HookedClusters(sample.clusters, before=before)):
        handle = await sample.start(RC3)
        await waits(sample)
        await secret.bring_back()
        await handle.result()
    assert taken
    await went_on(sample)


def _gives_back(call: Call) -> bool:
    return call.subject.startswith("Node ") and call.writes("spec") and not call.body["spec"].get("unschedulable")
