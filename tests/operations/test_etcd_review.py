"""What the plan says about etcd before anything is touched."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.etcd import EtcdAlarmType
from hopline.domain.node_strategy import DrainPolicy, DrainRules
from hopline.domain.plan import Action, ComponentType, HopPlan, PlannedComponent, Pool, Severity, UpgradePlan
from hopline.domain.release import InlineHandler
from hopline.domain.resources import SECRET
from hopline.operations.etcd_care import EtcdCare
from hopline.operations.node_review import NodeReview
from hopline.sim.etcd import SECRET_SUFFIX


def plan(east: Any, handler: InlineHandler = InlineHandler.ETCD) -> UpgradePlan:
    component = PlannedComponent(
        name="etcd", version="v3.6.8-of.1", type=ComponentType.NODE, handler=handler.value, action=Action.RUN,
        pools=(Pool.CONTROL_PLANE,),
    )  # fmt: skip
    hop = HopPlan(from_version="v26.06-rc.3", to_version="v26.06", components=(component,))
    return UpgradePlan(cluster=east.key, hops=(hop,))


async def review(east: Any, *, required: bool = True, handler: InlineHandler = InlineHandler.ETCD) -> UpgradePlan:
    reviewing = NodeReview(
        east.clusters, DrainRules(policy=DrainPolicy.OFF), EtcdCare(east.clusters, required=required)
    )
    return await reviewing.review(await east.facts(), plan(east, handler))


async def test_a_healthy_etcd_is_worth_no_word_and_its_leader_goes_last(east: Any) -> None:
    east.clusters.script.etcd_leader("m1")
    reviewed = await review(east)
    assert reviewed.findings == ()
    assert reviewed.hops[0].components[0].waves == (("m2",), ("m3",), ("m1",))


async def test_an_etcd_that_is_not_well_blocks_the_start_with_member_and_alarm(east: Any) -> None:
    east.clusters.script.etcd_member_down("m2")
    east.clusters.script.etcd_alarm("m3", EtcdAlarmType.CORRUPT)
    (found,) = (await review(east)).findings
    assert found.severity is Severity.BLOCKS
    assert "etcd member m2 does not serve" in found.message
    assert "etcd member m3 has raised the alarm CORRUPT" in found.message
    assert found.remedy


@pytest.mark.parametrize(("required", "severity"), [(True, Severity.BLOCKS), (False, Severity.WARNS)])
async def test_an_etcd_that_nobody_can_look_at_blocks_unless_an_operator_looks(
    east: Any, required: bool, severity: Severity
) -> None:
    await east.management.delete(east.ref(SECRET, f"east{SECRET_SUFFIX}"))
    (found,) = (await review(east, required=required)).findings
    assert found.severity is severity
    assert found.object == f"Secret east/east{SECRET_SUFFIX}"
    assert ("HOPLINE_ETCD_PROBE=optional" in found.remedy) is required


async def test_a_hop_that_changes_no_etcd_does_not_ask_it(east: Any) -> None:
    await east.management.delete(east.ref(SECRET, f"east{SECRET_SUFFIX}"))
    assert (await review(east, handler=InlineHandler.MASTER)).findings == ()
