"""Every EtcdProbe keeps the promises of the port: on a real etcd cluster with TLS, and on the simulator."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("contracts.etcd_probe")

from contracts.etcd_probe import EtcdProbeContract  # noqa: E402
from controlplane.binaries import Binaries  # noqa: E402
from controlplane.etcd_cluster import Authority, EtcdCluster  # noqa: E402
from hopline.domain.cluster import ClusterFacts, cluster_facts  # noqa: E402
from hopline.domain.errors import ClusterNotReady  # noqa: E402
from hopline.domain.etcd import EtcdAlarmType  # noqa: E402
from hopline.domain.resources import SECRET, ObjectRef  # noqa: E402
from hopline.domain.wire import ClusterKey  # noqa: E402
from hopline.kube.etcd_probe import GatewayEtcdProbe  # noqa: E402
from hopline.operations.reading import read_cluster  # noqa: E402
from hopline.ports import ClusterClient, EtcdProbe  # noqa: E402
from hopline.sim.clusters import SimulatedClusters, open_simulation  # noqa: E402
from hopline.sim.etcd import SECRET_SUFFIX  # noqa: E402
from hopline.sim.scenarios import create_scenario  # noqa: E402
from looking import until_enough  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
EAST = ClusterKey(kube_namespace="east", name="east")
NAME = f"{EAST.name}{SECRET_SUFFIX}"
CREDENTIALS = ObjectRef(kind=SECRET, name=NAME, kube_namespace=EAST.kube_namespace)


class SimulatedSite:
    """The example cluster in a simulation."""

    def __init__(self, clusters: SimulatedClusters, facts: ClusterFacts) -> None:
        self._clusters = clusters
        self.facts = facts.model_copy(update={"nodes": tuple(one for one in facts.nodes if one.is_etcd)})
        self.probe: EtcdProbe = clusters.etcd
        self._down: dict[str, int] = {}

    async def kill(self, name: str) -> None:
        self._down[name] = self._clusters.script.etcd_member_down(name)

    async def start(self, name: str) -> None:
        self._clusters.script.clear(self._down.pop(name))

    async def raise_alarm(self, name: str, alarm: EtcdAlarmType) -> None:
        self._clusters.script.etcd_alarm(name, alarm)

    async def drop_credentials(self) -> None:
        await self._clusters.management.delete(CREDENTIALS)

    async def give_wrong_credentials(self) -> None:
        await self._clusters.management.patch(CREDENTIALS, {"data": {"tls.crt": base64.b64encode(b"no").decode()}})


class TestEtcdProbeOnTheSimulator(EtcdProbeContract):
    @pytest.fixture
    async def site(self, tmp_path: Path) -> AsyncIterator[SimulatedSite]:
        path = tmp_path / "sim.db"
        create_scenario(path, examples=EXAMPLES)
        clusters = open_simulation(path)
        yield SimulatedSite(clusters, await read_cluster(clusters.management, EAST))
        await clusters.aclose()


class RealSite:
    """A real etcd cluster, and a management cluster that holds nothing but Secrets."""

    def __init__(self, etcd: EtcdCluster, management: ClusterClient) -> None:
        self.etcd, self.management = etcd, management
        self.probe: EtcdProbe = GatewayEtcdProbe(management)
        self.facts = facts_of(etcd)

    async def kill(self, name: str) -> None:
        await asyncio.to_thread(self.etcd.kill, name)

    async def start(self, name: str) -> None:
        await asyncio.to_thread(self.etcd.start, name)

    async def raise_alarm(self, name: str, alarm: EtcdAlarmType) -> None:
        await asyncio.to_thread(self.etcd.raise_alarm, name, alarm.value)

    async def drop_credentials(self) -> None:
        await self.management.delete(CREDENTIALS)

    async def give_wrong_credentials(self) -> None:
        """A client that another authority has signed; the members are trusted, and do not trust us."""
        stranger = Authority().sign("a stranger")
        secret = self.etcd.secret(NAME, EAST.kube_namespace, client=stranger)
        await self.management.patch(CREDENTIALS, {"data": secret["data"]})


def facts_of(etcd: EtcdCluster) -> ClusterFacts:
    """A cluster whose spec says on which port etcd listens."""
    arguments = {"advertise-client-urls": f"https://0.0.0.0:{etcd.client_port}"}
    cluster = {
        "metadata": {"name": EAST.name, "namespace": EAST.kube_namespace},
        "spec": {"clusterConfig": {"cluster": {"etcd": {"extraArgs": arguments}}}},
    }
    nodes: list[Any] = [
        {"metadata": {"name": f"east-{name}"}, "spec": {"ip": ip, "hostname": name, "role": ["master", "etcd"]}}
        for name, ip in etcd.addresses.items()
    ]
    return cluster_facts(cluster, None, nodes)


class TestEtcdProbeOnRealMembers(EtcdProbeContract):
    @pytest.fixture
    def etcd(self, control_plane_binaries: Binaries) -> Iterator[EtcdCluster]:
        with EtcdCluster(control_plane_binaries) as running:
            yield running

    @pytest.fixture
    async def site(self, etcd: EtcdCluster, tmp_path: Path) -> AsyncIterator[RealSite]:
        clusters = open_simulation(tmp_path / "sim.db")
        clusters.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EAST.kube_namespace}})
        clusters.put(etcd.secret(NAME, EAST.kube_namespace))
        yield RealSite(etcd, clusters.management)
        await clusters.aclose()

    async def test_the_leader_is_the_one_that_leads(self, site: RealSite) -> None:
        leader = await asyncio.to_thread(site.etcd.leader)
        assert (await site.probe.look(site.facts)).leader == leader

    async def test_members_with_a_certificate_of_another_authority_are_not_believed(self, site: RealSite) -> None:
        secret = site.etcd.secret(NAME, EAST.kube_namespace, authority=Authority().pem)
        await site.management.patch(CREDENTIALS, {"data": secret["data"]})
        with pytest.raises(ClusterNotReady, match="certificate is not trusted"):
            await site.probe.look(site.facts)

    async def test_a_member_at_an_address_that_its_certificate_does_not_name(self, site: RealSite) -> None:
        """Whoever holds any certificate of the authority must not pass for a member."""
        wrong = site.etcd.authority.sign("m1", ["192.0.2.1"])
        for suffix, content in (("crt", wrong.certificate), ("key", wrong.key)):
            (site.etcd.folder("m1") / f"server.{suffix}").write_bytes(content)
        await site.kill("m1")
        await site.start("m1")

        async def problem() -> str:
            return (await site.probe.look(site.facts)).members[0].problem

        assert "not trusted" in await until_enough(problem, lambda told: "not trusted" in told)

    async def test_the_api_servers_client_serves_where_there_is_no_other_one(self, site: RealSite) -> None:
        await site.drop_credentials()
        client = site.etcd.secret(f"{EAST.name}-apiserver-etcd-client", EAST.kube_namespace)
        del client["data"]["ca.crt"]
        authority = site.etcd.secret(f"{EAST.name}-etcd", EAST.kube_namespace)
        authority["data"] = {"tls.crt": base64.b64encode(site.etcd.authority.pem).decode()}
        for one in (client, authority):
            await site.management.create(one, kind=SECRET)
        assert (await site.probe.look(site.facts)).healthy == 3

    @pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt"])
    async def test_a_secret_that_lacks_something_is_named_with_it(self, site: RealSite, key: str) -> None:
        await site.management.patch(CREDENTIALS, {"data": {key: None}})
        with pytest.raises(ClusterNotReady, match=key) as caught:
            await site.probe.look(site.facts)
        assert NAME in caught.value.subject

    async def test_a_key_that_is_none_is_refused_without_a_word_of_it(self, site: RealSite) -> None:
        await site.management.patch(CREDENTIALS, {"data": {"tls.key": base64.b64encode(b"my secret").decode()}})
        with pytest.raises(ClusterNotReady, match="cannot be used") as caught:
            await site.probe.look(site.facts)
        assert "my secret" not in str(caught.value)
