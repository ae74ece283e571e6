"""The same push on a real API server, with the rights that deploy/rbac.yaml gives a worker: Secret, record, Ping."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from controlplane.agent_script import AgentScript, Step
from controlplane.agents import AgentNode, NodeAgents
from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane
from hopline.domain.errors import Rejected
from hopline.domain.node_strategy import DrainRules
from hopline.domain.plan import Action, ComponentType, HopPlan, PlannedComponent, Pool, UpgradePlan
from hopline.domain.release import InlineHandler
from hopline.operations.agent_push import AgentPlace, PushedAgents
from hopline.operations.node_review import NodeReview
from hopline.operations.reading import read_cluster
from hopline.ports import Clusters, InstallPhase
from hopline.runtime.settings import Settings
from hopline.wiring import build_clusters
from ssh.push_lab import KEY, NEW, SECRET_NAME, cluster_objects, repository, secret, sha256
from ssh.sshd import ACCOUNT, Sshd, agent

DEPLOY = Path(__file__).parents[2] / "deploy"
BROAD = "hopline-target-apply"
RECORD = "hopline-host-key-east-127-0-0-1"


@pytest.fixture(scope="module")
def script() -> AgentScript:
    return AgentScript(seconds=0.1)


@pytest.fixture(scope="module")
def server(control_plane_binaries: Binaries, script: AgentScript) -> Iterator[ControlPlane]:
    """With the accounts as on a management cluster that only manages others, and an agent for the node."""
    with ControlPlane(control_plane_binaries) as running:
        running.install_crds(DEPLOY / "crds")
        documents = [one for one in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()) if one]
        running.apply(*(one for one in documents if one["metadata"]["name"] != BROAD))
        running.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEY.kube_namespace}})
        with NodeAgents(running.kubeconfig, KEY.kube_namespace, [AgentNode("m1", "127.0.0.1")], script):
            yield running


@pytest.fixture
def files(tmp_path: Path, server: ControlPlane, sshd: Sshd) -> Iterator[Path]:
    """The file repository of a cluster whose one node is the sshd, with an old agent; no record of its host key."""
    folder = tmp_path / "served" / "files"
    folder.mkdir(parents=True)
    sshd.install(agent("old"))
    server.kubectl("delete", "configmap", RECORD, "-n", KEY.kube_namespace, "--ignore-not-found")
    with repository(tmp_path / "served") as address:
        cluster, version, node = cluster_objects(sshd, address)
        for document in (cluster, version, node):
            status = document.pop("status")
            kind = document["kind"].lower()
            if kind == "bkecluster":
                document["spec"]["clusterConfig"]["cluster"]["ntpServer"] = "ntp.test"
            server.apply(document)
            patch = ("patch", kind, document["metadata"]["name"], "-n", KEY.kube_namespace, "--subresource=status")
            server.kubectl(*patch, "--type=merge", f"-p={json.dumps({'status': status})}")
        yield folder


def offer(files: Path, content: bytes) -> None:
    """A new agent in the repository."""
    file = files / f"bkeagent-{NEW.removeprefix('v')}-linux-amd64"
    file.write_bytes(content)
    file.with_name(f"{file.name}.sha256").write_text(sha256(content))


def settings(server: ControlPlane, tmp_path: Path, **changes: str) -> Settings:
    """As the environment of a worker gives them."""
    kubeconfig = server.kubeconfig_for_service_account("hopline-system", "hopline-worker")
    given = {
        "HOPLINE_KUBECONFIG": str(kubeconfig),
        "HOPLINE_MANAGEMENT_CLUSTER": str(KEY),
        "HOPLINE_RELEASE_CACHE": str(tmp_path / "cache"),
        "HOPLINE_AGENT_SSH_SECRET": SECRET_NAME,
        **changes,
    }
    return Settings.from_environment(given, offline=True)


@pytest_asyncio.fixture
async def clusters(server: ControlPlane, files: Path, tmp_path: Path) -> AsyncIterator[Clusters]:
    """As a worker has them that may record host keys."""
    opened = await build_clusters(settings(server, tmp_path, HOPLINE_AGENT_SSH_HOST_KEYS="accept-new"))
    yield opened
    await opened.aclose()


def grant(server: ControlPlane, sshd: Sshd, known_hosts: str = "") -> None:
    """The Secret."""
    server.apply(secret(username=ACCOUNT, ssh_privatekey=sshd.user_key.read_text(), known_hosts=known_hosts))


def placed(clusters: Clusters, sshd: Sshd, ping_seconds: float) -> PushedAgents:
    """The worker's own installer, for a node whose agent lies elsewhere and answers sooner."""
    made = clusters.agents
    assert isinstance(made, PushedAgents)
    place = AgentPlace(binary=str(sshd.binary), ping_seconds=ping_seconds)
    return PushedAgents(clusters.management, made.shells, made.binaries, place)


async def test_a_push_with_the_rights_of_a_worker(
    server: ControlPlane, sshd: Sshd, files: Path, clusters: Clusters
) -> None:
    grant(server, sshd)
    offer(files, agent("new"))
    state = await placed(clusters, sshd, 60.0).install(KEY, sshd.address, NEW)
    assert state.phase is InstallPhase.DONE, state.message
    assert sshd.runs == agent("new")
    assert sshd.leftovers == []
    told = server.kubectl("get", "configmap", RECORD, "-n", KEY.kube_namespace, "-o", "jsonpath={.data.known_hosts}")
    assert told == sshd.known_hosts
    assert server.kubectl("get", "commands", "-n", KEY.kube_namespace, "-o", "name") == ""


async def test_a_silent_agent_and_a_node_that_is_another_one_by_now(
    server: ControlPlane, sshd: Sshd, files: Path, clusters: Clusters, script: AgentScript
) -> None:
    grant(server, sshd)
    offer(files, agent("hangs"))
    script.hold("m1", Step.PING)
    state = await placed(clusters, sshd, 1.0).install(KEY, sshd.address, NEW)
    script.release("m1", Step.PING)
    assert "does not answer: it has begun a Ping and not ended it within 1 s" in state.message
    assert sshd.runs == agent("old")
    line = sshd.known_hosts.replace(sshd.known_hosts.split()[2], other_key(sshd))
    record = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": RECORD, "namespace": KEY.kube_namespace}}
    server.kubectl("delete", "configmap", RECORD, "-n", KEY.kube_namespace)
    server.apply({**record, "data": {"known_hosts": line}})
    with pytest.raises(Rejected, match="another host key"):
        await placed(clusters, sshd, 1.0).install(KEY, sshd.address, NEW)


def other_key(sshd: Sshd) -> str:
    """A public key that is not the server's."""
    return sshd.user_key.with_suffix(".pub").read_text().split()[1]


async def review(clusters: Clusters) -> UpgradePlan:
    """What a plan says of the component."""
    handler = InlineHandler.AGENT.value
    component = PlannedComponent(
        name="bkeagent", version=NEW, type=ComponentType.AGENT, handler=handler, pools=(Pool.CONTROL_PLANE,),
        action=Action.RUN,
    )  # fmt: skip
    hop = HopPlan(from_version="v1", to_version="v2", components=(component,))
    plan = UpgradePlan(cluster=KEY, from_version="v1", to_version="v2", hops=(hop,))
    return await NodeReview(clusters, DrainRules()).review(await read_cluster(clusters.management, KEY), plan)


async def test_the_plan_names_what_is_missing_until_it_is_there(
    server: ControlPlane, sshd: Sshd, files: Path, tmp_path: Path
) -> None:
    server.kubectl("delete", "secret", SECRET_NAME, "-n", KEY.kube_namespace, "--ignore-not-found")
    opened = await build_clusters(settings(server, tmp_path))
    try:
        told = [one.message for one in (await review(opened)).findings]
        assert told == ["there is no Secret with credentials for SSH to the nodes"]
        grant(server, sshd)
        (found,) = (await review(opened)).findings
        assert found.message.startswith("m1: nobody vouches for the host key of the node")
        grant(server, sshd, sshd.known_hosts)
        (found,) = (await review(opened)).findings
        assert "has no node agent bkeagent-1.0.3-linux-amd64" in found.message
        offer(files, agent("new"))
        assert (await review(opened)).findings == ()
    finally:
        await opened.aclose()


async def test_without_the_setting_nobody_can_push(server: ControlPlane, tmp_path: Path) -> None:
    opened = await build_clusters(settings(server, tmp_path, HOPLINE_AGENT_SSH_SECRET=""))
    assert opened.agents is None
    await opened.aclose()
