"""A real control plane of three nodes goes from one minor version to the next, under load, and loses nothing."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controlplane.agent_script import Outcome, Step
from controlplane.binaries import Program
from hopline.domain.resources import ANNOTATION_TAKEN_BY
from real_lab import RealCluster, RealSite
from realistic.etcd_record import EtcdRecord
from realistic.load import LoadClient
from realistic.node_effects import RealNodeEffects
from realistic.programs import RealisticPrograms
from realistic.release_input import KEY, NEW, WORKERS, write_input
from realistic.target_cluster import NODES, TargetCluster

pytestmark = [pytest.mark.slow, pytest.mark.controlplane, pytest.mark.timeout(1800)]

SERVERS = (Program.ETCD, Program.API_SERVER, Program.CONTROLLER_MANAGER, Program.SCHEDULER)
WORKER = {"HOPLINE_ETCD_PROBE": "required"}
"""The members are real here, and have to be asked."""

SECONDS = 1200.0
"""For the whole hop, which takes two minutes: every API server may take half a minute to end."""


@pytest.fixture
def snapshots() -> list[dict[str, Any]]:
    """What etcdutl says of each snapshot that the agents have taken."""
    return []


@pytest.fixture
def cluster(
    site: RealSite,
    target_cluster: TargetCluster,
    realistic_programs: RealisticPrograms,
    snapshots: list[dict[str, Any]],
    tmp_path: Path,
) -> Iterator[RealCluster]:
    """Installed at the older release, with agents that replace real programs."""
    nodes = {name: node.address for name, node in target_cluster.nodes.items()}
    examples = write_input(tmp_path, site.releases, realistic_programs, nodes, target_cluster.front)
    effects = partial(RealNodeEffects, target_cluster, snapshots)
    made = site.add_cluster_of(examples, KEY, target=target_cluster, effects=effects)
    site.control_plane.apply(target_cluster.etcd_secret(KEY))
    site.kill("worker")
    site.start_worker(**WORKER)
    yield made
    site.remove_cluster(made)


def test_a_control_plane_goes_through_the_hop_for_real(
    site: RealSite,
    cluster: RealCluster,
    target_cluster: TargetCluster,
    realistic_programs: RealisticPrograms,
    snapshots: list[dict[str, Any]],
) -> None:
    with EtcdRecord(target_cluster) as etcd, LoadClient(target_cluster.kubeconfig) as load:
        began = time.monotonic()
        cluster.script.hold(NODES[1], Step.UPGRADE_CONTROL_PLANE)
        site.patch_desired_version(cluster, NEW)
        site.until(lambda: is_replacing_the_second_control_plane(cluster), "at the second control plane", SECONDS)
        site.kill("worker")
        cluster.script.release(NODES[1], Step.UPGRADE_CONTROL_PLANE)
        site.start_worker(**WORKER)
        site.until_ready(cluster, NEW, SECONDS)
        seconds = time.monotonic() - began
    print(f"\nhop of {seconds:.0f} s, {target_cluster.memory_mib:.0f} MiB in memory at its end\n{load.figures}")
    print(etcd.told([one.node for one in cluster.script.executions[1:] if one.step is Step.UPGRADE_ETCD]))

    assert load.figures.answered_writes > 0
    assert load.figures.lost == []
    assert_everything_is_new(target_cluster, realistic_programs)
    assert_every_command_once(site, cluster, realistic_programs)
    assert not {one["metadata"]["name"] for one in target_cluster.get("nodes")["items"] if is_taken(one)}
    assert len(snapshots) > 1, "one before the first member is touched, and what the agent takes by itself then"
    assert all(one["totalKey"] > 0 for one in snapshots)


def is_replacing_the_second_control_plane(cluster: RealCluster) -> bool:
    return any(
        one.node == NODES[1] and one.step is Step.UPGRADE_CONTROL_PLANE and one.outcome is Outcome.RUNNING
        for one in cluster.script.executions
    )


def assert_everything_is_new(target: TargetCluster, programs: RealisticPrograms) -> None:
    newer = programs.newer
    running = {
        (program, name): program_of(target.process_ids[f"{program.value}-{name}"])
        for program in SERVERS
        for name in NODES
    }
    assert running == {(program, name): Path(newer.binaries.path(program)) for program, name in running}
    assert {target.api_server_version(name) for name in NODES} == {newer.kubernetes}
    assert {target.etcd_version(name) for name in NODES} == {newer.etcd}
    nodes = {one["metadata"]["name"]: one["status"]["nodeInfo"] for one in target.get("nodes")["items"]}
    assert nodes.keys() == {*NODES, *WORKERS}
    assert {info["kubeletVersion"] for info in nodes.values()} == {newer.kubernetes}


def program_of(process_id: int) -> Path | None:
    """What a process runs; None when it has ended."""
    try:
        return Path(f"/proc/{process_id}/exe").readlink()
    except FileNotFoundError:
        return None


def assert_every_command_once(site: RealSite, cluster: RealCluster, programs: RealisticPrograms) -> None:
    """The first takes a snapshot: it is told to raise etcd to the version that it has, and so changes nothing."""
    assert set(cluster.script.times_run().values()) == {1}
    assert cluster.script.overlaps() == []
    done = cluster.script.executions
    assert f"etcdVersion={programs.older.etcd}" in done[0].arguments
    changes = Counter((one.node, one.step) for one in done[1:])
    control_plane = (Step.UPGRADE_ETCD, Step.UPGRADE_CONTROL_PLANE)
    expected = {(name, step): 1 for name in NODES for step in control_plane}
    assert changes == expected | {(name, Step.UPGRADE_WORKER): 1 for name in WORKERS}
    created = [
        event
        for event in site.control_plane.audit_events(cluster.mark)
        if event.resource == "commands" and event.verb == "create" and event.code < 300
    ]
    assert len(created) == len(done)


def is_taken(node: dict[str, Any]) -> bool:
    """Cordoned, or marked by a run."""
    return bool(node["spec"].get("unschedulable")) or ANNOTATION_TAKEN_BY in json.dumps(node["metadata"])
