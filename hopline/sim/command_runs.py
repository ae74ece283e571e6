"""One agent carrying out one Command: instruction after instruction, each ended by a timer."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from hopline.domain.resources import Document
from hopline.sim import journal, plugins
from hopline.sim.command_status import entry_of, finished, started, with_condition, write_entry
from hopline.sim.database import Session
from hopline.sim.journal import Effect, EffectType
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.machines import Machine, find_machine
from hopline.sim.plugins import Instruction, Outcome
from hopline.sim.script import DurationScope, FaultType, duration, has_fault, take_fault
from hopline.sim.storage import Storage, timestamp

DEFAULT_DEADLINE_SECONDS = 600
HELD_SECONDS = 0.05
"""How often an instruction that is held looks whether it may end."""

RUNS, ENDED, FORGOTTEN = "runs", "ended", "forgotten"
"""States of a task; a forgotten one is unknown to its agent since that was restarted."""


class Step(BaseModel):
    """The instruction that a task is at: what was known when it started."""

    id: str = ""
    words: list[str] = []
    type: str = ""
    prepared: dict[str, str] = {}
    cluster: str = ""
    started: float = 0.0
    effect: int = 0
    fault: str | None = None


def is_known(session: Session, command: Document, ip: str) -> bool:
    """Has the agent in memory a task for this or a later state of the Command?"""
    metadata = command["metadata"]
    found = session.one(
        "SELECT 1 FROM tasks WHERE command_uid = ? AND ip = ? AND state <> ? AND generation >= ?",
        metadata["uid"], ip, FORGOTTEN, metadata.get("generation", 1),
    )  # fmt: skip
    return found is not None


def start(session: Session, command: Document, machine: Machine) -> None:
    """Take a Command up from its first instruction that is not Completed."""
    storage, metadata = Storage(session, MANAGEMENT), command["metadata"]
    write_entry(storage, metadata["uid"], machine.key, started(entry_of(command, machine.key), session.now))
    cursor = session.execute(
        "INSERT INTO tasks (command_uid, kube_namespace, name, hostname, ip, generation, state, record)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, '{}')",
        metadata["uid"], metadata["namespace"], metadata["name"], machine.name, machine.facts.ip,
        metadata.get("generation", 1), RUNS,
    )  # fmt: skip
    _begin_step(session, int(cursor.lastrowid or 0), storage.find_uid(metadata["uid"]) or command, machine)


def forget(session: Session, machine: Machine) -> None:
    """The agent's memory is gone, and with it what it was running."""
    rows = session.execute(
        "SELECT id, state, record FROM tasks WHERE kube_namespace = ? AND ip = ? AND state <> ?",
        machine.cluster.kube_namespace, machine.facts.ip, FORGOTTEN,
    ).fetchall()  # fmt: skip
    for number, state, record in rows:
        if state == RUNS:
            journal.close(session, Step.model_validate_json(record).effect, outcome="lost")
        session.execute("UPDATE tasks SET state = ? WHERE id = ?", FORGOTTEN, number)


def _next_instruction(command: Document, key: str) -> Document | None:
    entry = entry_of(command, key) or {}
    done = {known["id"] for known in entry.get("conditions") or () if known["phase"] in {"Completed", "Skip"}}
    commands: list[Document] = command["spec"].get("commands") or []
    return next((one for one in commands if one.get("id") not in done), None)


def _is_late(session: Session, command: Document, key: str) -> bool:
    seconds = int(command["spec"].get("activeDeadlineSecond") or 0)
    begun = datetime.fromisoformat((entry_of(command, key) or {})["lastStartTime"]).timestamp()
    return session.now > begun + (seconds if seconds > 0 else DEFAULT_DEADLINE_SECONDS)


def _begin_step(session: Session, task: int, command: Document, machine: Machine) -> None:
    wanted = _next_instruction(command, machine.key)
    if wanted is None or _is_late(session, command, machine.key):
        _finish(session, task, command, machine)
        return
    words = [str(word) for word in wanted.get("command") or ()]
    instruction = plugins.parse(words, str(wanted.get("type", "")))
    _watch_for_overlap(session, task, command, machine)
    fault = None
    for name in (machine.name, machine.facts.ip):
        fault = fault or take_fault(session, FaultType.COMMAND, node=name, phase=instruction.phase)
    seconds = max(
        duration(session, DurationScope.COMMAND, node=name, phase=instruction.phase)
        for name in (machine.name, machine.facts.ip)
    )
    step = Step(
        id=str(wanted.get("id", "")),
        words=words,
        type=str(wanted.get("type", "")),
        prepared=plugins.prepare(session, instruction),
        cluster=machine.cluster.name,
        started=session.now,
        effect=_journal(session, command, machine, instruction, words),
        fault=fault[1] if fault is not None else None,
    )
    session.execute("UPDATE tasks SET record = ? WHERE id = ?", step.model_dump_json(), task)
    session.schedule(seconds, "command.step", task=task)


def _journal(session: Session, command: Document, machine: Machine, instruction: Instruction, words: list[str]) -> int:
    effect = Effect(
        type=EffectType.COMMAND,
        verb=instruction.plugin,
        subject=f"Command {command['metadata']['namespace']}/{command['metadata']['name']}",
        server=MANAGEMENT,
        node=machine.key,
        arguments=tuple(words[1:]),
        started=session.now,
        outcome="running",
    )
    return journal.record(session, effect)


def _watch_for_overlap(session: Session, task: int, command: Document, machine: Machine) -> None:
    others = session.execute(
        "SELECT name FROM tasks WHERE kube_namespace = ? AND ip = ? AND state = ? AND id <> ?",
        machine.cluster.kube_namespace, machine.facts.ip, RUNS, task,
    ).fetchall()  # fmt: skip
    for (other,) in others:
        name = command["metadata"]["name"]
        effect = Effect(
            type=EffectType.VIOLATION,
            subject=f"Command {command['metadata']['namespace']}/{name}",
            node=machine.key,
            started=session.now,
            ended=session.now,
            detail=f"{name} started while {other} was still running on the node",
        )
        journal.record(session, effect)


def end_step(session: Session, task: int) -> None:
    """An instruction ends: its effect happens, whatever has become of its Command."""
    row = session.execute(
        "SELECT state, record, command_uid, kube_namespace, ip FROM tasks WHERE id = ?", task
    ).fetchone()
    if row is None or row[0] != RUNS:
        return
    step, uid, kube_namespace, ip = Step.model_validate_json(row[1]), row[2], row[3], row[4]
    storage = Storage(session, MANAGEMENT)
    command = storage.find_uid(uid)
    machine = find_machine(session, kube_namespace, step.cluster, ip)
    if machine is None:
        _end(session, task)
        return
    instruction = plugins.parse(step.words, step.type)
    if _is_held(session, machine, instruction):
        session.schedule(HELD_SECONDS, "command.step", task=task)
        return
    outcome = (
        Outcome(error=step.fault)
        if step.fault is not None
        else plugins.perform(session, machine, instruction, step.prepared)
    )
    journal.close(session, step.effect, outcome="failed" if outcome.error else "done", detail=outcome.error)
    if command is None:
        _end(session, task)
        return
    _report(storage, command, machine, step, outcome)
    _go_on(session, task, uid, machine)


def _is_held(session: Session, machine: Machine, instruction: Instruction) -> bool:
    names = (machine.name, machine.facts.ip)
    return any(has_fault(session, FaultType.COMMAND_HELD, node=name, phase=instruction.phase) for name in names)


def _report(storage: Storage, command: Document, machine: Machine, step: Step, outcome: Outcome) -> None:
    spec = command["spec"]
    mine: dict[str, Any] = next((one for one in spec.get("commands") or () if one.get("id") == step.id), {})
    condition: Document = {
        "id": step.id,
        "status": "False" if outcome.error else "True",
        "phase": ("Skip" if mine.get("backoffIgnore") else "Failed") if outcome.error else "Completed",
        "lastStartTime": timestamp(step.started),
        "count": 1 if not outcome.error else max(0, int(spec.get("backoffLimit") or 0)) + 1,
    }
    if outcome.output:
        condition["stdOut"] = list(outcome.output)
    if outcome.error:
        condition["stdErr"] = [outcome.error]
    entry = entry_of(command, machine.key) or started(None, step.started)
    write_entry(storage, command["metadata"]["uid"], machine.key, with_condition(entry, condition))


def _go_on(session: Session, task: int, uid: str, machine: Machine) -> None:
    """The next instruction, the end, or a stop between two of them because of suspend or deletion."""
    command = Storage(session, MANAGEMENT).find_uid(uid)
    if command is None:
        _end(session, task)
        return
    conditions = (entry_of(command, machine.key) or {}).get("conditions") or []
    is_last = _next_instruction(command, machine.key) is None
    if is_last or conditions[-1]["phase"] == "Failed":
        _finish(session, task, command, machine)
    elif command["spec"].get("suspend") or "deletionTimestamp" in command["metadata"]:
        _end(session, task)
    else:
        _begin_step(session, task, command, machine)


def _finish(session: Session, task: int, command: Document, machine: Machine) -> None:
    uid, spec = command["metadata"]["uid"], command["spec"]
    entry = finished(entry_of(command, machine.key) or {}, len(spec.get("commands") or ()), session.now)
    write_entry(Storage(session, MANAGEMENT), uid, machine.key, entry)
    _end(session, task)
    seconds = int(spec.get("ttlSecondsAfterFinished") or 0)
    if seconds and entry["phase"] == "Completed":
        session.schedule(seconds, "command.expire", uid=uid)


def _end(session: Session, task: int) -> None:
    session.execute("UPDATE tasks SET state = ? WHERE id = ?", ENDED, task)
