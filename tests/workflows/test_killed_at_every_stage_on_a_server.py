"""kill -9 of a worker process at every stage of a node, on a real API server: its audit log tells what came twice."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHandle

from controlplane.agent_script import Outcome, Step
from controlplane.audit import AuditEvent
from controlplane.binaries import Binaries, Program
from controlplane.control_plane import ControlPlane
from controlplane.processes import ManagedProcess, ProcessFamily
from controlplane.releases import copy_releases
from example_folders import EXAMPLES, NOT_YET
from hooked_clusters import Call
from hopline.domain.node_strategy import DrainPolicy, DrainRules, WaveStrategy
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import ANNOTATION_TAKEN_BY
from hopline.runtime.settings import child_environment
from looking import until_enough
from real_lab import ACCOUNTS, GUIDE, RBAC, ROOT, WORKER, RealCluster, RealSite
from server_stage_kills import EFFECTS, REACHED, RUNNING, STAGES, WELL, Place, effects_until
from workflows.messages import RolloutInput, RolloutResult
from workflows.node_rollout import NodeRollout

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]

VERSION = "v1.34.4-of.1"
TITLES = (*STAGES, WELL)
PLACES = {
    title: Place(f"{GUIDE.name}-w{n}", f"198.51.100.{n + 1}", f"leaving-{n}-") for n, title in enumerate(TITLES, 1)
}
"""One node for each stage; the first address is that of the one control-plane node."""

KINDS = {"nodes": "Node", "bkenodes": "BKENode", "commands": "Command", "pods": "Pod"}
DEVICES = "example.com/gpu"
PATIENCE = 180.0
Handle = WorkflowHandle[NodeRollout, RolloutResult]


@pytest.fixture
def site(
    control_plane: ControlPlane, control_plane_binaries: Binaries, temporal_address: str, tmp_path: Path
) -> Iterator[RealSite]:
    """A control plane with the worker's own account, and no worker yet."""
    copy_releases(EXAMPLES / "releases", tmp_path / "releases", NOT_YET)
    control_plane.kubectl("apply", "--server-side", "-f", str(RBAC))
    with ExitStack() as stack:
        family = ProcessFamily("stages")
        stack.callback(family.close)
        program = control_plane_binaries.path(Program.KUBECTL)
        yield RealSite(control_plane, temporal_address, tmp_path, family, program, stack=stack)


@pytest.fixture
def cluster(site: RealSite) -> RealCluster:
    """A node for each stage, an API server that is at the target, and pods that have to leave two of the nodes."""
    made = site.add_cluster(GUIDE.name, (1, len(TITLES)))
    declared = {"spec": {"clusterConfig": {"cluster": {"kubernetesVersion": VERSION}}}}
    site.control_plane.kubectl("patch", "bkecluster", *made.where, "--type=merge", "-p", json.dumps(declared))
    pod = f"pod/kube-apiserver-{made.master}"
    image = f"kube-apiserver=registry.example.test/kube-apiserver:{VERSION.removeprefix('v')}"
    site.control_plane.kubectl("set", "image", pod, image, "-n", "kube-system")
    leaving = [PLACES[title] for title in ("eviction-before", "eviction-after")]
    site.control_plane.apply(*(pinned(place) for place in leaving))
    for place in leaving:
        site.control_plane.kubectl("rollout", "status", f"deployment/{place.pod.rstrip('-')}", "--timeout=60s")
    offer(site, 2)
    return made


def pinned(place: Place) -> dict[str, Any]:
    """A workload that only one node takes."""
    name = place.pod.rstrip("-")
    spec = {"nodeSelector": {"kubernetes.io/hostname": place.host}, "containers": [{"name": "c", "image": "i:1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def offer(site: RealSite, count: int) -> None:
    """Devices of the node that is to be not well for a while."""
    status = json.dumps({"status": {"allocatable": {DEVICES: str(count)}, "capacity": {DEVICES: str(count)}}})
    name = PLACES[WELL].host
    site.control_plane.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)


async def started(site: RealSite, client: Client) -> Handle:
    """All nodes in one wave."""
    handler = InlineHandler.WORKER
    component = PlannedComponent(
        name=handler.value, version=VERSION, type=ComponentType.NODE, handler=handler.value, timeout_seconds=600
    )
    request = RolloutInput(
        cluster=GUIDE, component=component, pool=Pool.WORKERS, hop_version="v26.06-rc.3", parent_id=f"run-{uuid4()}",
        drain=DrainRules(policy=DrainPolicy.WAIT, timeout_seconds=600), strategy=WaveStrategy(batch_size=len(TITLES)),
        deadline=datetime.now(UTC) + timedelta(seconds=600),
    )  # fmt: skip
    return await client.start_workflow(NodeRollout.run, request, id=f"rollout-{uuid4()}", task_queue=site.task_queue)


def doomed_worker(site: RealSite, folder: Path) -> ManagedProcess:
    """The worker that stops at the stage of each node."""
    file = folder / "stages.json"
    file.write_text(json.dumps({title: asdict(PLACES[title]) for title in STAGES}))
    kubeconfig = site.control_plane.kubeconfig_for_service_account(ACCOUNTS, "hopline-worker")
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    environment = child_environment(site.environment | {"KUBECONFIG": str(kubeconfig)} | paths)
    return site.family.start("doomed", [sys.executable, "-m", "server_stage_kills", str(file)], environment, ROOT)


async def has_come_everywhere(site: RealSite, cluster: RealCluster, handle: Handle) -> None:
    """Every node is at its stage, and held there."""
    well = PLACES[WELL].host

    async def begun() -> set[str]:
        return {one.node for one in cluster.script.executions}

    await until_enough(begun, lambda names: well in names, PATIENCE)
    offer(site, 1)
    cluster.script.release(well, Step.UPGRADE_WORKER)

    async def reached() -> set[str]:
        lines = site.log("doomed").splitlines()
        return {line.removeprefix(REACHED) for line in lines if line.startswith(REACHED)}

    await until_enough(reached, lambda titles: titles == set(STAGES), PATIENCE)

    async def said() -> str:
        return (await handle.query(NodeRollout.progress)).model_dump_json()

    await until_enough(said, lambda text: f"offers 1 of 2 {DEVICES}" in text, PATIENCE)


@pytest.mark.timeout(600)
async def test_a_worker_that_is_killed_at_every_stage_of_a_node_leaves_nothing_twice_and_nothing_cordoned(
    site: RealSite, cluster: RealCluster, temporal_client: Client, tmp_path: Path
) -> None:
    held = PLACES[RUNNING].host, PLACES[WELL].host
    for host in held:
        cluster.script.hold(host, Step.UPGRADE_WORKER)
    handle = await started(site, temporal_client)
    worker = doomed_worker(site, tmp_path)
    await has_come_everywhere(site, cluster, handle)
    site.family.stop(worker)
    assert worker.popen.returncode == -9
    reached = {(title, effect): 1 for title in TITLES for effect in effects_of(title) if effect in effects_until(title)}
    assert await written(site, cluster, reached) == reached

    cluster.script.release(PLACES[RUNNING].host, Step.UPGRADE_WORKER)
    offer(site, 2)
    site.start_worker()
    result = await handle.result()
    once = {(title, effect): 1 for title in TITLES for effect in effects_of(title)}
    assert await written(site, cluster, once) == once
    assert sorted(result.upgraded) == sorted(place.host for place in PLACES.values())
    assert what_is_wrong(site, cluster) == []


def effects_of(title: str) -> tuple[str, ...]:
    """What has to happen to a node; only two of them have a pod of ours."""
    return tuple(name for name in EFFECTS if name != "eviction" or title.startswith(name))


async def written(site: RealSite, cluster: RealCluster, expected: dict[tuple[str, str], int]) -> dict[Any, int]:
    """Stage of a node and effect, or a request that is none: how often the server has carried it out for a worker.

    Pods of the platform itself may leave too, each once. The server writes its log a moment after its answer, so what
    is expected is waited for.
    """

    async def look() -> dict[Any, int]:
        events = [one for one in site.requests(cluster, WORKER) if one.resource in KINDS and one.is_write]
        found = Counter(effect_of(one) for one in events if one.code < 300 and not one.is_dry_run)
        return {what: count for what, count in found.items() if (what[0], count) != ("evict", 1)}

    return await until_enough(look, lambda found: set(expected) <= set(found), PATIENCE)


def effect_of(event: AuditEvent) -> tuple[str, str]:
    verb = "evict" if event.subresource == "eviction" else event.verb
    name = f"{event.kube_namespace}/{event.name}" if event.kube_namespace else event.name
    call = Call(verb, f"{KINDS[event.resource]} {name}", event.body or {})
    found = [
        (title, effect) for title, place in PLACES.items() for effect, fits in EFFECTS.items() if fits(call, place)
    ]
    return found[0] if found else (verb, call.subject)


def what_is_wrong(site: RealSite, cluster: RealCluster) -> list[str]:
    """Everything that must not be after the end of a run."""
    told: list[str] = []
    for node in site.control_plane.get("nodes")["items"]:
        metadata = node["metadata"]
        if node["spec"].get("unschedulable") or ANNOTATION_TAKEN_BY in metadata.get("annotations", {}):
            told.append(f"{metadata['name']} is cordoned, or marked")
        if metadata["name"] != cluster.master and node["status"]["nodeInfo"]["kubeletVersion"] != VERSION:
            told.append(f"{metadata['name']} is not at the target")
    kept = ("-n", cluster.key.kube_namespace)
    states = {
        one["metadata"]["name"]: one["status"]["state"] for one in site.control_plane.get("bkenodes", *kept)["items"]
    }
    told += [f"{name} is {state}" for name, state in states.items() if state != "Ready"]
    wanted = Counter(place.ip for place in PLACES.values())
    commands = Counter(
        ip
        for one in site.control_plane.get("commands", *kept)["items"]
        for ip in one["spec"]["nodeSelector"]["matchLabels"]
    )
    if commands != wanted:
        told.append(f"Commands: {commands}")
    ran = Counter(one.node for one in cluster.script.executions if one.outcome is Outcome.SUCCEEDED)
    if ran != Counter(place.host for place in PLACES.values()) or len(cluster.script.executions) != len(PLACES):
        told.append(f"instructions: {cluster.script.executions}")
    return told
