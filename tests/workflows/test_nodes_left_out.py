"""Nodes that a rollout leaves out are told: a hop that ends well must not hide that a node was not raised."""

from __future__ import annotations

import pytest

from hopline.domain.resources import BKE_NODE, EVENT, ObjectRef
from upgrade_lab import UpgradeLab

pytestmark = pytest.mark.slow
RC3 = "v26.06-rc.3"


async def test_nodes_that_are_left_out_are_told_by_an_event_of_each_component(lab: UpgradeLab) -> None:
    management, place = lab.clusters.management, lab.cluster.kube_namespace
    nodes = (await management.list(BKE_NODE, kube_namespace=place)).items
    (skipped,) = [node for node in nodes if node["spec"]["hostname"] == "w2"]
    ref = ObjectRef(kind=BKE_NODE, name=skipped["metadata"]["name"], kube_namespace=place)
    await management.patch(ref, {"status": {"needSkip": True}}, subresource="status")
    async with lab.worker():
        await (await lab.start(RC3)).result()
    events = (await management.list(EVENT, kube_namespace=place)).items
    told = {event["message"]: event for event in events if event["reason"] == "NodesLeftOut"}
    assert sorted(told) == [
        "bkeagent: w2 (status.needSkip is true)",
        "containerd: w2 (status.needSkip is true)",
        "kubernetes-worker: w2 (status.needSkip is true)",
    ]
    assert {(event["involvedObject"]["kind"], event["type"]) for event in told.values()} == {("BKECluster", "Warning")}
