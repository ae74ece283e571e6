"""The node agents of a simulation: they take up Commands and carry them out by timers (openfuyao-nodes.md §1.3-1.7).

As the real ones do: an agent has no lock, so two Commands on one node run at once (the journal calls it a violation);
suspending or deleting a Command stops nothing that runs, its effect still happens; a Failed Command is taken up again
when the agent is restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hopline.domain.resources import COMMAND, FINALIZER_COMMAND, LABEL_CLUSTER_NAME, Document
from hopline.sim import command_runs, lifecycle
from hopline.sim.command_status import entry_of, is_expired, write_entry
from hopline.sim.database import Session
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.machines import Machine, find_machine, machines
from hopline.sim.script import DurationScope, FaultType, duration, has_fault
from hopline.sim.selectors import object_selector
from hopline.sim.storage import Storage, deep


def react(storage: Storage, old: Document | None, new: Document | None) -> None:
    """Let the agents see a Command that was made or changed."""
    if storage.server != MANAGEMENT or new is None or new["kind"] != COMMAND.kind:
        return
    _announce(storage.session, new)


def _announce(session: Session, command: Document) -> None:
    for machine in _addressed(session, command):
        seconds = duration(session, DurationScope.PICK_UP, node=machine.facts.ip)
        session.schedule(seconds, "agent.see", uid=command["metadata"]["uid"], ip=machine.facts.ip)


def _addressed(session: Session, command: Document) -> list[Machine]:
    """The machines that a Command is for: by node name, or by a selector that names their address or hostname."""
    metadata, spec = command["metadata"], command.get("spec") or {}
    cluster = (metadata.get("labels") or {}).get(LABEL_CLUSTER_NAME, "")
    named = set(deep(spec, "nodeSelector", "matchLabels") or {})
    by_address = [find_machine(session, metadata["namespace"], cluster, ip) for ip in sorted(named)]
    found = [machine for machine in by_address if machine is not None]
    if len(found) == len(named) and named and not spec.get("nodeName"):
        return found
    accepts = object_selector(spec.get("nodeSelector") or {})
    for machine in machines(session, metadata["namespace"], cluster):
        own = {machine.facts.ip, machine.name}
        by_expression = not named and accepts({label: label for label in own})
        if machine not in found and (spec.get("nodeName") == machine.name or named & own or by_expression):
            found.append(machine)
    return found


def _machine(session: Session, command: Document, ip: str) -> Machine | None:
    metadata = command["metadata"]
    cluster = (metadata.get("labels") or {}).get(LABEL_CLUSTER_NAME, "")
    return find_machine(session, metadata["namespace"], cluster, ip)


def see(session: Session, uid: str, ip: str) -> None:
    """An agent looks at a Command."""
    storage = Storage(session, MANAGEMENT)
    command = storage.find_uid(uid)
    machine = _machine(session, command, ip) if command is not None else None
    if command is None or machine is None or has_fault(session, FaultType.AGENT_DOWN, node=ip):
        return
    if "deletionTimestamp" in command["metadata"]:
        release(storage, command)
        return
    spec: Any = command.get("spec") or {}
    entry = entry_of(command, machine.key)
    if not spec.get("commands") or (entry or {}).get("phase") == "Completed":
        return
    _hold(storage, command)
    if spec.get("suspend"):
        write_entry(storage, uid, machine.key, {**(entry or {"status": "Unknown"}), "phase": "Suspend"})
        return
    if not command_runs.is_known(session, command, ip):
        command_runs.start(session, command, machine)


def _hold(storage: Storage, command: Document) -> None:
    finalizers = command["metadata"].setdefault("finalizers", [])
    if FINALIZER_COMMAND not in finalizers:
        finalizers.append(FINALIZER_COMMAND)
        storage.update(command)


def release(storage: Storage, command: Document) -> None:
    """Remove the agents' finalizer from a Command that is being deleted."""
    finalizers = command["metadata"].get("finalizers") or []
    if FINALIZER_COMMAND in finalizers:
        left = [name for name in finalizers if name != FINALIZER_COMMAND]
        if left:
            command["metadata"]["finalizers"] = left
        else:
            del command["metadata"]["finalizers"]
        storage.update(command)
    lifecycle.finish_if_released(storage, command)


def restart_agent(session: Session, machine: Machine) -> None:
    """An agent starts anew: what it ran is lost, and every Command of its that is not Completed is taken up again."""
    command_runs.forget(session, machine)
    for command in Storage(session, MANAGEMENT).select(COMMAND, machine.cluster.kube_namespace):
        if machine.facts.ip in {one.facts.ip for one in _addressed(session, command)}:
            session.schedule(0.0, "agent.see", uid=command["metadata"]["uid"], ip=machine.facts.ip)


def recheck(session: Session) -> None:
    """Let every agent look at every Command: one that was down may be up again."""
    for command in Storage(session, MANAGEMENT).select(COMMAND):
        _announce(session, command)


def expire(session: Session, uid: str) -> None:
    """Delete a Command that has gone well long ago (openfuyao-nodes.md §1.7)."""
    storage = Storage(session, MANAGEMENT)
    command = storage.find_uid(uid)
    if command is not None and is_expired(command, session.now):
        lifecycle.delete(storage, command)
        left = storage.find_uid(uid)
        if left is not None:
            release(storage, left)


ACTIONS: dict[str, Callable[..., None]] = {
    "agent.see": see,
    "agent.recheck": recheck,
    "command.expire": expire,
    "command.step": command_runs.end_step,
}
