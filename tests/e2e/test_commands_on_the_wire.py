"""Every Command of two hops, as the API server got it, field by field (openfuyao-nodes.md §1.2, §1.8, §2.3 to §2.6)."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from controlplane.agent_script import AgentScript
from controlplane.binaries import Binaries
from controlplane.lab_site import LabSite
from docs.pages import ROOT
from looking import until_enough

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]

WORKER = "system:serviceaccount:hopline-system:hopline-worker"
ROLES = {"m1": "[master, etcd]", "m2": "[master/node, etcd]", "m3": "[etcd]", "w1": "[node]", "w2": "[node]"}
ADDRESSES = {"m1": "192.0.2.11", "m2": "192.0.2.12", "m3": "192.0.2.13", "w1": "192.0.2.21", "w2": "192.0.2.22"}
HOPS = {"v26.06-rc.3": "v2.1.2", "v26.06": "v2.1.3"}
"""Hop → version of containerd."""

ETCD_BEFORE, ETCD = "v3.6.7-of.1", "v3.6.8-of.1"
CLUSTER_TYPE = "bocloud"
"""Value of the annotation `bke.bocloud.com/cluster-from`."""


@pytest.fixture(scope="module")
def site(control_plane_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """Nodes of every role, and a cluster whose type is told by its annotation."""
    folder = tmp_path_factory.mktemp("roles") / "examples"
    shutil.copytree(ROOT / "deploy" / "examples", folder)
    file = folder / "cluster.yaml"
    kept = []
    for document in file.read_text().split("\n---\n"):
        found = re.search(r"^  hostname: (\w+)$", document, re.MULTILINE)
        if found and found[1] not in ROLES:
            continue
        kept.append(re.sub(r"  role: .*", f"  role: {ROLES[found[1]]}", document) if found else document)
    file.write_text("\n---\n".join(kept))
    settings = {"HOPLINE_DRAIN": "off"}
    with LabSite(control_plane_binaries, AgentScript(seconds=0.05), examples=folder, settings=settings) as made:
        yield made


def upgrade(phase: str, snapshot: bool = False, *more: str) -> dict[str, Any]:
    """The one sub-command of a node upgrade: the order of its arguments counts."""
    told = ["Kubeadm", f"phase={phase}", "bkeConfig=east:east", f"clusterType={CLUSTER_TYPE}"]
    told += [f"backUpEtcd={str(snapshot).lower()}", *more]
    return {"id": "upgrade", "command": told, "type": "BuiltIn", "backoffDelay": 3}


def reset() -> dict[str, Any]:
    told = ["Reset", "bkeConfig=east:east", "scope=containerd-cfg", "extra="]
    return {"id": "reset", "command": told, "type": "BuiltIn", "backoffIgnore": True}


def redeploy(version: str) -> dict[str, Any]:
    told = ["K8sEnvInit", "init=true", "check=true", "scope=runtime", "bkeConfig=east:east"]
    told += [f"containerdVersion={version}"]
    return {"id": "init and check node env", "command": told, "type": "BuiltIn", "backoffDelay": 5}


def expected(uid: str) -> list[dict[str, Any]]:
    """Every Command of both hops, its name without the second."""
    made = []
    for hop, containerd in HOPS.items():
        for host in ROLES:
            made.append(document(uid, host, "k8s-containerd-reset", reset()))
            made.append(document(uid, host, "k8s-containerd-redeploy", redeploy(containerd)))
        name = "upgrade-node-{}"
        if hop == "v26.06":
            made += [
                document(uid, host, name, upgrade("UpgradeEtcd", host == "m1", f"etcdVersion={ETCD}"), ttl=600)
                for host in ("m1", "m2", "m3")
            ]
        made += [
            document(uid, host, name, upgrade("UpgradeControlPlane", host == "m1"), ttl=600) for host in ("m1", "m2")
        ]
        made += [document(uid, host, name, upgrade("UpgradeWorker"), ttl=600) for host in ("w1", "w2")]
    return made


def document(uid: str, host: str, name: str, command: dict[str, Any], ttl: int = 0) -> dict[str, Any]:
    ip = ADDRESSES[host]
    owner = {
        "apiVersion": "bke.bocloud.com/v1beta1",
        "kind": "BKECluster",
        "name": "east",
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "bkeagent.bocloud.com/v1beta1",
        "kind": "Command",
        "metadata": {
            "name": name.format(ip),
            "namespace": "east",
            "labels": {"bke.bocloud.com/cluster-command": "", "cluster.x-k8s.io/cluster-name": "east"},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": "",
            "suspend": False,
            "commands": [command],
            "backoffLimit": 3,
            "activeDeadlineSecond": 1000,
            "nodeSelector": {"matchLabels": {ip: ip}},
            **({"ttlSecondsAfterFinished": ttl} if ttl else {}),
        },
    }


async def test_commands_are_the_documented_ones_for_every_handler_and_role(site: LabSite) -> None:
    site.until_ready()
    server = site.control_plane
    kind = f"bke.bocloud.com/cluster-from={CLUSTER_TYPE}"
    server.kubectl("annotate", "bkecluster", "east", "-n", "east", kind, "--overwrite")
    mark = server.audit_mark()
    wish = json.dumps({"spec": {"desiredVersion": "v26.06"}})
    server.kubectl("patch", "clusterversion", "east", "-n", "east", "--type", "merge", "-p", wish)

    async def status() -> dict[str, Any]:
        found = await asyncio.to_thread(server.get, "clusterversion", "east", "-n", "east")
        return dict(found["status"])

    seen = await until_enough(status, lambda one: one["currentVersion"] == "v26.06" or one["phase"] == "Failed", 240)
    assert seen["currentVersion"] == "v26.06", seen
    made = [
        event.body
        for event in server.audit_events(since=mark, user=WORKER)
        if (event.resource, event.verb, event.code) == ("commands", "create", 201) and not event.is_dry_run
    ]
    uid = server.get("bkecluster", "east", "-n", "east")["metadata"]["uid"]
    for body in made:
        base, _, second = body["metadata"]["name"].rpartition("-")
        assert second.isdecimal() and len(second) == 10
        body["metadata"]["name"] = base
    snapshots = [body for body in made if len(body["spec"]["commands"]) > 1]
    was, wanted = _counted(body for body in made if body not in snapshots), _counted(expected(uid))
    assert (list(was - wanted), list(wanted - was)) == ([], [])
    # The snapshot before the first member: the documented upgrade to the version that it has, and a question about it.
    (snapshot,) = snapshots
    asked, told = snapshot["spec"]["commands"]
    assert asked == upgrade("UpgradeEtcd", True, f"etcdVersion={ETCD_BEFORE}")
    assert (told["type"], sorted(told), len(told["command"])) == ("Shell", ["command", "id", "type"], 1)
    host = next(host for host, ip in ADDRESSES.items() if {ip: ip} == snapshot["spec"]["nodeSelector"]["matchLabels"])
    snapshot["spec"]["commands"] = [asked]
    assert snapshot == document(uid, host, f"upgrade-node-{ADDRESSES[host]}", asked, ttl=600)


def test_what_we_write_on_a_command_later_is_its_end_and_nothing_else(site: LabSite) -> None:
    """Goes on from the test before: containerd's Commands are deleted after their end, the others by their agents."""
    later = [
        (event.verb, event.name.rpartition("-")[0], event.body)
        for event in site.control_plane.audit_events(user=WORKER)
        if event.resource == "commands" and event.is_write and event.verb != "create"
    ]
    assert {verb for verb, _, _ in later} == {"delete"}
    assert {name for _, name, _ in later} == {"k8s-containerd-reset", "k8s-containerd-redeploy"}


def _counted(documents: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(one, sort_keys=True) for one in documents)
