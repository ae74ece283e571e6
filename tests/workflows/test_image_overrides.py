"""Images of other registries: what is planned is applied, and counts as there afterwards."""

from __future__ import annotations

import pytest

from hopline.domain.plan import SupplyMode, UpgradePlan
from hopline.domain.resources import DEPLOYMENT, ObjectRef
from hopline.domain.status import RunState
from starter.requests import Requests
from upgrade_lab import UpgradeLab
from workflows.messages import Question

pytestmark = [pytest.mark.slow]
VERSION = "v26.06-rc.3"
RULES = "registry.example.test:40443/kubernetes/coredns=mirror.example/dns,docker.io=mirror.example/hub"


async def plan_of(lab: UpgradeLab) -> UpgradePlan:
    plan = (await Requests(lab.client, lab.task_queue).inspect(lab.cluster, Question.PLAN, VERSION)).plan
    assert plan is not None
    return plan


async def doubts(lab: UpgradeLab) -> list[str]:
    """What keeps the component from counting as there."""
    found = (await plan_of(lab)).blocking
    return [one.message for one in found if "coredns is not at v1.12.2" in one.message]


async def test_a_rule_of_the_worker_changes_what_is_applied(lab: UpgradeLab) -> None:
    lab.changes |= {"registry_overrides": RULES}
    async with lab.worker():
        plan = await plan_of(lab)
        assert plan.supply.mode is SupplyMode.OFFLINE
        assert [(one.named, one.applied) for one in plan.supply.rewrites] == [
            ("registry.example.test:40443/kubernetes/coredns:v1.12.2", "mirror.example/dns:v1.12.2")
        ]
        await lab.start(VERSION)
        await lab.until(RunState.DONE)
        target = await lab.clusters.target(lab.cluster)
        found = await target.get(ObjectRef(kind=DEPLOYMENT, name="coredns", kube_namespace="kube-system"))
        (container,) = found["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "mirror.example/dns:v1.12.2"
        assert not await doubts(lab)
    # Without the rule the same cluster is not what its release says.
    lab.changes.clear()
    async with lab.worker():
        assert await doubts(lab)
