"""What every EtcdProbe promises, asked of three members `m1`, `m2`, `m3`."""

from __future__ import annotations

import contextlib
from typing import Protocol

import pytest

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import ClusterNotReady, Transient
from hopline.domain.etcd import EtcdAlarm, EtcdAlarmType, EtcdSighting, health_problems, not_back, objection
from hopline.ports import EtcdProbe
from looking import until_enough


class EtcdSite(Protocol):
    """Members that a test can harm."""

    probe: EtcdProbe
    facts: ClusterFacts

    async def kill(self, name: str) -> None: ...
    async def start(self, name: str) -> None: ...
    async def raise_alarm(self, name: str, alarm: EtcdAlarmType) -> None: ...
    async def drop_credentials(self) -> None: ...
    async def give_wrong_credentials(self) -> None: ...


class EtcdProbeContract:
    """Subclasses have the fixture `site`."""

    async def seen(self, site: EtcdSite) -> EtcdSighting:
        return await site.probe.look(site.facts)

    async def test_a_healthy_cluster_shows_members_leader_and_space(self, site: EtcdSite) -> None:
        seen = await self.seen(site)
        assert [(one.name, one.address) for one in seen.members] == [
            (node.display_name, node.ip) for node in site.facts.nodes if node.is_etcd
        ]
        assert all(one.is_well and one.version and 0 < one.db_size < one.quota for one in seen.members)
        assert seen.leader in ("m1", "m2", "m3")
        assert (seen.alarms, seen.alarms_unread, seen.voters, seen.quorum, seen.healthy) == ((), "", 3, 2, 3)
        assert health_problems(seen, site.facts) == ()
        for node in site.facts.nodes:
            assert objection(seen, node, changes_etcd=True) is None
            assert not_back(seen, node) == ""

    async def test_a_member_that_is_down_is_named_and_comes_back(self, site: EtcdSite) -> None:
        await site.kill("m2")
        seen = await until_enough(lambda: self.seen(site), lambda seen: seen.leader in ("m1", "m3"))
        assert [one.name for one in seen.members if one.problem] == ["m2"]
        assert (seen.healthy, seen.alarms_unread) == (2, "")
        m1 = next(node for node in site.facts.nodes if node.display_name == "m1")
        m2 = next(node for node in site.facts.nodes if node.display_name == "m2")
        for changes in (True, False):
            found = objection(seen, m1, changes_etcd=changes)
            assert found is not None
            assert "m2" in found.message
        assert objection(seen, m2, changes_etcd=True) is None, "its Command is what heals it"
        assert "etcd member m2 does not serve" in not_back(seen, m2)
        await site.start("m2")
        await until_enough(lambda: self.seen(site), lambda seen: not not_back(seen, m2))

    async def test_the_lead_goes_to_the_member_that_is_named(self, site: EtcdSite) -> None:
        first = await until_enough(lambda: self.seen(site), lambda seen: bool(seen.leader))
        heir = next(name for name in ("m1", "m2", "m3") if name != first.leader)

        async def handed_over() -> str:
            """A slow machine may elect somebody else by itself at any time."""
            seen = await self.seen(site)
            with contextlib.suppress(Transient):
                if seen.leader not in ("", heir):
                    await site.probe.move_leader(site.facts, seen.leader, heir)
            return (await self.seen(site)).leader

        await until_enough(handed_over, lambda leader: leader == heir)

    async def test_a_member_that_is_down_is_never_handed_the_lead(self, site: EtcdSite) -> None:
        await site.kill("m2")
        seen = await until_enough(lambda: self.seen(site), lambda seen: seen.leader in ("m1", "m3"))
        with pytest.raises(Transient, match=f"{seen.leader} does not hand over its lead to m2") as caught:
            await site.probe.move_leader(site.facts, seen.leader, "m2")
        assert "etcdctl move-leader" in caught.value.remedy

    async def test_nobody_hands_over_without_credentials(self, site: EtcdSite) -> None:
        await site.drop_credentials()
        with pytest.raises(ClusterNotReady, match="there is no client certificate"):
            await site.probe.move_leader(site.facts, "m1", "m2")

    async def test_without_a_quorum_nobody_serves_and_nobody_leads(self, site: EtcdSite) -> None:
        await site.kill("m2")
        await site.kill("m3")
        seen = await until_enough(lambda: self.seen(site), lambda seen: seen.healthy == 0)
        assert seen.leader == ""
        assert seen.alarms_unread, "whether there is an alarm cannot be asked without a quorum"
        problems = health_problems(seen, site.facts)
        assert "etcd has no quorum: 0 of 3 members serve, 2 must" in problems

    async def test_no_member_answers(self, site: EtcdSite) -> None:
        for name in ("m1", "m2", "m3"):
            await site.kill(name)
        with pytest.raises(Transient, match="no member of etcd answers") as caught:
            await self.seen(site)
        assert all(name in caught.value.message for name in ("m1", "m2", "m3"))
        assert caught.value.remedy

    @pytest.mark.parametrize("alarm", [EtcdAlarmType.NOSPACE, EtcdAlarmType.CORRUPT])
    async def test_an_alarm_is_told_from_ill_health(self, site: EtcdSite, alarm: EtcdAlarmType) -> None:
        await site.raise_alarm("m3", alarm)
        seen = await until_enough(lambda: self.seen(site), lambda seen: bool(seen.alarms))
        assert seen.alarms == (EtcdAlarm(member="m3", type=alarm),)
        assert seen.healthy == 3
        found = objection(seen, site.facts.nodes[0], changes_etcd=True)
        assert found is not None
        assert not found.passes
        assert f"etcd member m3 has raised the alarm {alarm.value}" in found.message
        assert "etcdctl alarm disarm" in found.remedy

    async def test_without_credentials_nobody_can_look(self, site: EtcdSite) -> None:
        await site.drop_credentials()
        with pytest.raises(ClusterNotReady, match="there is no client certificate") as caught:
            await self.seen(site)
        assert caught.value.subject.startswith("Secret ")
        assert caught.value.subject.endswith("-etcd-healthcheck-client")
        assert caught.value.remedy

    async def test_credentials_that_the_members_do_not_take(self, site: EtcdSite) -> None:
        await site.give_wrong_credentials()
        with pytest.raises(ClusterNotReady) as caught:
            await self.seen(site)
        assert caught.value.subject.endswith("-etcd-healthcheck-client")
        assert "BEGIN" not in str(caught.value)
