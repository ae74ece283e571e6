"""Snapshots of etcd on simulated machines: what a file would show, kept as a fact of the machine."""

from __future__ import annotations

import hashlib
import json
import time

from hopline.domain.etcd_snapshots import BACKUP_FOLDER, SEAL_BYTES
from hopline.sim.database import Session
from hopline.sim.machines import Machine, read_state, write_state
from hopline.sim.script import FaultType, SnapshotDamage, take_fault

SNAPSHOT = "snapshot"
"""Field of `node_states`."""

SIZE = 20 * 1024**2 + SEAL_BYTES
FREE_KIB = 50 * 1024**2
LONG_AGO_SECONDS = 86_400.0


def take(session: Session, machine: Machine) -> None:
    """The agent takes one, good or damaged as the script says. It says that it went well either way."""
    fault = None
    for name in (machine.name, machine.facts.ip):
        fault = fault or take_fault(session, FaultType.SNAPSHOT, node=name)
    damage = SnapshotDamage(fault[1]) if fault is not None else None
    if damage is SnapshotDamage.MISSING:
        write_state(session, machine, SNAPSHOT, "")
        return
    moment = session.now - (LONG_AGO_SECONDS if damage is SnapshotDamage.OLD else 0.0)
    name = time.strftime("backup-%y%m%d%H%M.db", time.gmtime(moment))
    content = hashlib.sha256(f"{machine.key} {moment}".encode()).hexdigest()
    told = {
        "file": f"{BACKUP_FOLDER}/{name}",
        "size": "0" if damage is SnapshotDamage.EMPTY else str(SIZE),
        "modified": str(int(moment)),
        "seal": content[::-1] if damage is SnapshotDamage.CORRUPT else content,
        "content": content,
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "free": "16" if damage is SnapshotDamage.FULL_DISK else str(FREE_KIB),
    }
    write_state(session, machine, SNAPSHOT, json.dumps(told))


def tell(session: Session, machine: Machine) -> list[str]:
    """What the shell line prints about the newest one; nothing when there is none."""
    kept = read_state(session, machine, SNAPSHOT)
    return [f"{key}={value}" for key, value in json.loads(kept).items()] if kept else []
