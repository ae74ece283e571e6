"""Raising the node agent itself: which file, what a node shows of it, and what to do next (openfuyao-nodes.md §2.2).

Unlike the existing controller's push, nothing is stopped before its successor is there, the version of an agent is the
hash of its binary, and the old one is put back when the new one does not answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.errors import Rejected
from hopline.domain.node_commands import command_object
from hopline.domain.resources import Document

AGENT_BINARY = "/usr/local/bin/bkeagent"
AGENT_UNIT = "bkeagent"
ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""What `uname -m` says → how files are named."""


class HostKeyPolicy(StrEnum):
    """What is done about a node whose host key nobody knows."""

    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


PING = "ping"
PONG = "pong"
PING_TTL_SECONDS = 600
_ARCHITECTURE_MARK = "{.arch}"
_SHORT = 12


def short(digest: str) -> str:
    """As much of a hash as people compare."""
    return digest[:_SHORT] or "none"


def architecture_of(machine: str, node: NodeFacts) -> str:
    """`amd64` or `arm64`. Raises Rejected for anything else."""
    found = ARCHITECTURES.get(machine)
    if found is None:
        raise Rejected(
            "there is no node agent for this kind of machine",
            subject=f"node {node.display_name}",
            field="uname -m",
            value=machine,
            remedy=f"known are {', '.join(sorted(set(ARCHITECTURES.values())))}",
        )
    return found


def agent_file(facts: ClusterFacts, version: str, architecture: str) -> str:
    """Name of the binary in the repository; `customExtra.bkeagent` of the BKECluster names another one."""
    config = _mapping(_mapping(facts.document.get("spec")).get("clusterConfig"))
    override = str(_mapping(config.get("customExtra")).get("bkeagent") or "")
    wanted = version.removeprefix("v") or "latest"
    name = override or f"bkeagent-{wanted}-linux-{_ARCHITECTURE_MARK}"
    return name.replace(_ARCHITECTURE_MARK, architecture)


def file_repository(facts: ClusterFacts) -> str:
    """`http://host[:port][/prefix]` of `httpRepo`; empty when the BKECluster names none."""
    config = _mapping(_mapping(facts.document.get("spec")).get("clusterConfig"))
    repository = _mapping(_mapping(config.get("cluster")).get("httpRepo"))
    host = str(repository.get("domain") or repository.get("ip") or "")
    if not host:
        return ""
    port, prefix = str(repository.get("port") or ""), str(repository.get("prefix") or "").strip("/")
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}{f':{port}' if port else ''}{f'/{prefix}' if prefix else ''}"


class AgentState(BaseModel):
    """What a node shows of its agent; hashes are SHA-256 in hex, empty where there is nothing.

    Attributes:
        machine: `uname -m`.
        running: hash of what the unit's main process was started from; empty where that cannot be seen.
        active: as `systemctl is-active` says.
        pending: the hash that was there before a push that nobody has confirmed yet; `-`: nothing was there.
        staged: an upload that is complete and waits.
        free_kib: space beside the binary; -1: unknown.
    """

    model_config = ConfigDict(frozen=True)

    machine: str = ""
    installed: str = ""
    running: str = ""
    active: str = ""
    pending: str = ""
    staged: str = ""
    free_kib: int = -1


def read_state(output: str) -> AgentState:
    """From the lines `key=value` that a node prints."""
    pairs = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    known = {key: value.strip() for key, value in pairs.items() if key in AgentState.model_fields}
    free = known.pop("free_kib", "")
    return AgentState(**known, free_kib=int(free) if free.isdigit() else -1)


class Move(StrEnum):
    """What a node needs next on its way to an agent."""

    UPLOAD = "upload"
    REPLACE = "replace"
    RESTART = "restart"
    ASK = "ask"
    """The binary is there and runs: only its answer counts."""


def next_move(state: AgentState, target: str) -> Move:
    """Decided from what the node shows alone, so that it is the same after an interruption at any point."""
    if state.installed != target:
        return Move.REPLACE if state.staged == target else Move.UPLOAD
    return Move.ASK if state.running == target and state.active == "active" else Move.RESTART


def ping_document(facts: ClusterFacts, node: NodeFacts, name: str) -> Document:
    """The documented Command that asks an agent whether it answers, for one node (openfuyao-nodes.md §1.8)."""
    spec: Document = {
        "nodeName": "",
        "suspend": False,
        "commands": [{"id": PING, "command": ["Ping"], "type": "BuiltIn", "backoffDelay": 3}],
        "backoffLimit": 3,
        "activeDeadlineSecond": 1000,
        "ttlSecondsAfterFinished": PING_TTL_SECONDS,
        "nodeSelector": {"matchLabels": {node.ip: node.ip}},
    }
    return command_object(facts, name, spec)


def is_ping_of(document: Document, node: NodeFacts) -> bool:
    """A Ping for this node alone, whoever made it."""
    spec = _mapping(document.get("spec"))
    labels = _mapping(_mapping(spec.get("nodeSelector")).get("matchLabels"))
    told = [list(_mapping(one).get("command") or ()) for one in spec.get("commands") or ()]
    return dict(labels) == {node.ip: node.ip} and told == [["Ping"]]


def known_host_name(cluster_name: str, ip: str) -> str:
    """Name of the ConfigMap that keeps the host key of a node; long names of clusters are cut, and told apart."""
    plain = ip.replace(".", "-").replace(":", "-").strip("-")
    name = f"hopline-host-key-{cluster_name}-{plain}"
    if len(name) <= 200:
        return name
    return f"hopline-host-key-{cluster_name[:100]}-{hashlib.sha256(name.encode()).hexdigest()[:10]}-{plain}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
