"""A snapshot of etcd before the first member is changed: what the agent is told, and what makes its answer good.

The documented agent takes snapshots in one place only: the upgrade of etcd with `backUpEtcd=true`, before it looks
whether there is anything to upgrade (openfuyao-nodes.md §2.4). So it is told to "upgrade" one member to the version
that this member already has: it takes the snapshot, and finds nothing else to do. A second entry of the same Command, a
shell line, then says what lies on the disk: the agent itself never looks at the file again.

A snapshot of etcd ends with the SHA-256 of everything before it, which the member has sealed it with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.command_state import conditions_of
from hopline.domain.errors import ComponentFailed
from hopline.domain.etcd import EtcdSighting
from hopline.domain.node_commands import NodeCommand, etcd_snapshot_command
from hopline.domain.resources import Document
from hopline.domain.timestamps import parse_timestamp
from hopline.domain.wire import WireModel

BACKUP_FOLDER = "/etc/openFuyao/bkeagent/etcd-backup"
DATA_FOLDER = "/var/lib/openFuyao/etcd"
"""Hard-coded in the manifest that the agent renders (openfuyao-nodes.md §2.9)."""

SEAL_BYTES = 32
TELL = "tell"
"""Id of the second entry."""

SCRIPT = f"""set -eu
file=$(ls -t {BACKUP_FOLDER}/backup-*.db | head -n 1)
size=$(stat -c %s "$file")
echo "file=$file"
echo "size=$size"
echo "modified=$(stat -c %Y "$file")"
if [ "$size" -gt {SEAL_BYTES} ]; then
  echo "seal=$(tail -c {SEAL_BYTES} "$file" | od -An -v -tx1 | tr -d ' \\n')"
  echo "content=$(head -c $((size - {SEAL_BYTES})) "$file" | sha256sum | cut -d ' ' -f 1)"
  echo "sha256=$(sha256sum "$file" | cut -d ' ' -f 1)"
fi
echo "free=$(df -Pk {BACKUP_FOLDER} | awk 'NR == 2 {{ print $4 }}')"
if [ -d {DATA_FOLDER} ]; then echo "data_free=$(df -Pk {DATA_FOLDER} | awk 'NR == 2 {{ print $4 }}')"; fi"""
"""POSIX shell and the usual tools. Sizes in bytes, `modified` in unix seconds of the node, `free` in KiB."""


class EtcdSnapshot(WireModel):
    """A snapshot whose seal was right. Part of the stable JSON of `hopline status`.

    Attributes:
        node: where it lies, by display name.
        size: bytes.
        sha256: of the whole file, to know it again.
        digest: of the record of it in the Store; empty: not recorded.
        taken_at: by the clock of the node.
    """

    node: str
    path: str
    size: int
    sha256: str
    digest: str = ""
    taken_at: datetime | None = None

    def __str__(self) -> str:
        return f"{self.path} on {self.node} ({self.size} bytes, sha256 {self.sha256[:12]}…)"


def snapshot_command(facts: ClusterFacts, node: NodeFacts, version: str) -> NodeCommand:
    """The instruction; `version` is what the member on this node runs now."""
    return etcd_snapshot_command(facts, node, version, tell=(TELL, SCRIPT))


def snapshot_node(nodes: Iterable[NodeFacts], seen: EtcdSighting | None) -> NodeFacts | None:
    """A node whose member serves and whose agent answers; one that does not lead, if there is one.

    Without a sighting, which only an operator can allow, the first node with an agent. None: there is no such node.
    """
    ready = [node for node in nodes if node.is_etcd and node.agent_ready and not node.is_failed]
    if seen is None:
        return ready[0] if ready else None
    well = [node for node in ready if (member := seen.of(node)) is not None and member.is_well]
    return min(well, key=lambda node: (node.display_name == seen.leader, node.name), default=None)


def read_snapshot(document: Document, node: NodeFacts) -> EtcdSnapshot:
    """The snapshot that a Command which has ended well has left. Raises ComponentFailed when it cannot be relied on."""
    conditions = conditions_of(document, node)
    told = _facts(conditions.get(TELL, {}))
    began = parse_timestamp(str(next(iter(conditions.values()), {}).get("lastStartTime") or ""))
    size, modified = _number(told, "size"), _number(told, "modified")
    place = told.get("file") or BACKUP_FOLDER
    if not told.get("file"):
        raise _unverified(node, place, "the agent does not say where it lies")
    if size <= SEAL_BYTES:
        raise _unverified(node, place, f"it has {size} bytes")
    if began is not None and modified < int(began.timestamp()):
        raise _unverified(node, place, "the newest file is older than the instruction to take one")
    if not told.get("seal") or told["seal"] != told.get("content"):
        raise _unverified(node, place, "its content is not what its member sealed it with (SHA-256)")
    _require_room(told, size, node, place)
    return EtcdSnapshot(
        node=node.display_name,
        path=place,
        size=size,
        sha256=told.get("sha256", ""),
        taken_at=datetime.fromtimestamp(modified, tz=began.tzinfo) if began else None,
    )


def _require_room(told: Mapping[str, str], size: int, node: NodeFacts, place: str) -> None:
    """The upgrade of the first member takes another one (`backUpEtcd=true`), and etcd itself needs room to start."""
    for key, folder in (("free", BACKUP_FOLDER), ("data_free", DATA_FOLDER)):
        if key in told and _number(told, key) * 1024 < size:
            raise ComponentFailed(
                f"the disk of node {node.display_name} is nearly full: {_number(told, key)} KiB are free",
                subject=f"node {node.display_name} ({node.ip})",
                field=folder,
                value=f"{_number(told, key)} KiB free, a snapshot has {size} bytes",
                remedy=f"make room on {node.display_name} (old snapshots lie beside {place}); then retry",
            )


def _unverified(node: NodeFacts, place: str, why: str) -> ComponentFailed:
    return ComponentFailed(
        f"the snapshot of etcd cannot be relied on: {why}; no member was touched",
        subject=f"node {node.display_name} ({node.ip})",
        field=place,
        remedy=f"look at {place} and at the agent on {node.display_name} (journalctl -u bkeagent); then retry",
    )


def _facts(condition: Mapping[str, Any]) -> dict[str, str]:
    """`key=value` lines of the shell line's output, however the agent cuts it into pieces."""
    lines = [line for piece in condition.get("stdOut") or () for line in str(piece).splitlines()]
    pairs = (line.strip().partition("=") for line in lines)
    return {key: value for key, equals, value in pairs if equals}


def _number(told: Mapping[str, str], key: str) -> int:
    text = told.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else 0
