"""A hop keeps what it is about to change, and deletes what the new version of a component no longer has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hooked_clusters import Call, HookedClusters
from hopline.domain.errors import NotFound
from hopline.domain.resources import CONFIG_MAP, Document, ObjectRef
from hopline.operations.records import read_record, record_of_hop
from hopline.sim.releases import COMPONENT_NAMESPACE
from hopline.sim.scenarios import RELEASES
from hopline.sim.script import Failure, Verb
from hopline.wiring import store_on
from small_lab import FINAL, GRAPH, RC3, VERSIONS, SmallLab, SmallLabFactory, edit_json
from workflows.messages import RetryRequest

pytestmark = pytest.mark.slow

LEFTOVER = ObjectRef(kind=CONFIG_MAP, name="leftover", kube_namespace=COMPONENT_NAMESPACE)


def with_leftover(examples: Path) -> None:
    """The component `base` prunes, and has one object in v26.06-rc.3 only."""

    def ask(document: Document) -> None:
        document["spec"]["yaml"] |= {"prune": True, "pruneLabelSelector": {"part": "base"}}

    for version in VERSIONS:
        folder = examples / RELEASES / version / "components" / "base" / version
        edit_json(folder / "component.yaml", ask)
    metadata = {"name": LEFTOVER.name, "namespace": COMPONENT_NAMESPACE, "labels": {"part": "base"}}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mode": "kept"}}
    folder = examples / RELEASES / RC3 / "components" / "base" / RC3
    (folder / "leftover.yaml").write_text(json.dumps(document))


async def recorded(lab: SmallLab, version: str) -> dict[str, list[str]]:
    """Component → names of the objects that the record of a hop holds."""
    store, owner = store_on(lab.clusters.management), await lab.version()
    record = await record_of_hop(store, owner, version)
    assert record is not None
    found = await read_record(store, owner, record)
    return {part: [document["metadata"]["name"] for document in documents] for part, documents in found.items()}


async def test_every_hop_leaves_a_record_and_no_orphans(make_small: SmallLabFactory) -> None:
    lab = await make_small(prepare=with_leftover)
    target = await lab.clusters.target(lab.cluster)
    async with lab.worker():
        await (await lab.start(RC3)).result()
        assert (await target.get(LEFTOVER))["data"] == {"mode": "kept"}
        await (await lab.start(FINAL)).result()
    with pytest.raises(NotFound):
        await target.get(LEFTOVER)
    (event,) = await lab.events("ComponentPruned")
    assert event["message"] == f"base {FINAL} no longer has: {LEFTOVER} deleted"
    one_each = {name: [name] for name in GRAPH}
    assert await recorded(lab, RC3) == one_each
    assert await recorded(lab, FINAL) == one_each | {"base": ["base", "leftover"]}


async def test_a_refused_deletion_holds_the_hop_and_a_retry_goes_on(make_small: SmallLabFactory) -> None:
    lab = await make_small(prepare=with_leftover)
    async with lab.worker():
        await (await lab.start(RC3)).result()
        script = lab.clusters.script
        script.fail_request(Failure.REJECTED, verb=Verb.DELETE, cluster=lab.cluster, kind="ConfigMap", text="guarded")
        handle = await lab.start(FINAL)
        status = await lab.held()
        assert status.failure is not None
        told = "base v26.06 is applied, but ConfigMap hopline-test/leftover cannot be pruned: guarded"
        assert told in status.failure.error
        await lab.requests.retry(lab.cluster, RetryRequest())
        await handle.result()
    assert lab.end_state(await lab.version()) == (FINAL, "Ready")
    assert len(await lab.events("ComponentPruned")) == 1


async def test_a_target_that_is_away_when_a_hop_opens_is_waited_for(small: SmallLab) -> None:
    faults: list[int] = []

    def after(call: Call) -> None:
        if call.subject.startswith("ReleaseImage") and call.subresource == "status" and not faults:
            faults.append(small.clusters.script.unreachable(small.cluster))

    async with small.worker(clusters=HookedClusters(small.clusters, after=after)):
        handle = await small.start(RC3)
        await small.until_seen(lambda: small.events("TargetUnreachable"), bool)
        small.clusters.script.clear(faults[0])
        await handle.result()
    assert await recorded(small, RC3) == {name: [name] for name in GRAPH}
    assert not await small.events("UpgradeHeld")
