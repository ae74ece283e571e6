"""Scripted faults and durations of a simulation: kept in the file, counted there, the same for every process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum

from hopline.domain.errors import Blocked, Conflict, Forbidden, NotFound, PortError, Rejected, Transient
from hopline.domain.etcd import EtcdAlarmType
from hopline.domain.wire import ClusterKey
from hopline.sim.database import Database, Session
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.storage import touch

ALWAYS = -1
"""As a number of times: until it is cleared."""


class Verb(StrEnum):
    """What a client asks an API server for."""

    ANY = ""
    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    PATCH = "patch"
    PATCH_STATUS = "patch status"
    APPLY = "apply"
    DELETE = "delete"
    EVICT = "evict"
    DISCOVER = "discover"
    DRY_RUN = "dry run"
    """A create, patch or apply with dry_run; never counted as the real one."""


class FaultType(StrEnum):
    """Classes of scripted faults."""

    REQUEST = "request"
    COMMAND = "command"
    COMMAND_HELD = "command held"
    ROLLOUT = "rollout"
    INSTALL = "install"
    AGENT_DOWN = "agent down"
    ETCD_DOWN = "etcd down"
    ETCD_ALARM = "etcd alarm"
    ETCD_LEADER = "etcd leader"
    ETCD_SPACE = "etcd space"
    SNAPSHOT = "snapshot"


class Failure(StrEnum):
    """The error that a failing request answers with."""

    TRANSIENT = "Transient"
    CONFLICT = "Conflict"
    FORBIDDEN = "Forbidden"
    REJECTED = "Rejected"
    NOT_FOUND = "NotFound"
    BLOCKED = "Blocked"


_ERRORS: dict[Failure, type[PortError]] = {
    Failure.TRANSIENT: Transient,
    Failure.CONFLICT: Conflict,
    Failure.FORBIDDEN: Forbidden,
    Failure.REJECTED: Rejected,
    Failure.NOT_FOUND: NotFound,
    Failure.BLOCKED: Blocked,
}


class SnapshotDamage(StrEnum):
    """What may be wrong with a snapshot of etcd that an agent has taken."""

    MISSING = "missing"
    """There is no file."""
    EMPTY = "empty"
    OLD = "old"
    """The newest file is one of long ago."""
    CORRUPT = "corrupt"
    """Its bytes are not those that it was sealed with."""
    FULL_DISK = "full disk"
    """There is no room for another one of its size."""


class DurationScope(StrEnum):
    """What takes time."""

    ROLLOUT = "rollout"
    COMMAND = "command"
    PICK_UP = "pick up"
    STATIC_POD = "static pod"
    INSTALL = "install"
    JOB = "job"


def server_name(cluster: ClusterKey | None) -> str:
    """Name of an API server in the file before it is known to be self-managed; None is the management one."""
    return MANAGEMENT if cluster is None else str(cluster)


def _fits(match: dict[str, str], facts: dict[str, str]) -> bool:
    return all(not wanted or facts.get(field, "") == wanted for field, wanted in match.items())


def take_fault(session: Session, fault: FaultType, **facts: str) -> tuple[str, str] | None:
    """Use up one fault that fits: its error and text. The oldest one that is left counts."""
    rows = session.execute(
        "SELECT id, match, error, text FROM faults WHERE type = ? AND remaining <> 0 ORDER BY id", fault.value
    ).fetchall()
    for number, match, error, text in rows:
        if _fits(json.loads(match), facts):
            session.execute(
                "UPDATE faults SET hits = hits + 1, remaining = CASE WHEN remaining > 0 THEN remaining - 1"
                " ELSE remaining END WHERE id = ?",
                number,
            )
            return str(error), str(text)
    return None


def has_fault(session: Session, fault: FaultType, **facts: str) -> tuple[str, str] | None:
    """Error and text of a fault that fits, without using it up."""
    rows = session.execute(
        "SELECT match, error, text FROM faults WHERE type = ? AND remaining <> 0 ORDER BY id", fault.value
    ).fetchall()
    return next(((str(error), str(text)) for match, error, text in rows if _fits(json.loads(match), facts)), None)


def change_leader(session: Session, nodes: Iterable[str], leader: str) -> None:
    """Of the nodes of one etcd cluster, by name or address, only this one leads from now on."""
    for node in nodes:
        session.execute(
            "UPDATE faults SET remaining = 0 WHERE type = ? AND match = ?",
            FaultType.ETCD_LEADER.value,
            json.dumps({"node": node}),
        )
    session.execute(
        "INSERT INTO faults (type, match, remaining, error, text) VALUES (?, ?, ?, '', ?)",
        FaultType.ETCD_LEADER.value,
        json.dumps({"node": leader}),
        ALWAYS,
        leader,
    )


def duration(session: Session, scope: DurationScope, **facts: str) -> float:
    """Seconds that something takes: the most specific entry that fits, else 0."""
    rows = session.execute("SELECT match, seconds FROM durations WHERE scope = ?", scope.value).fetchall()
    entries = [(json.loads(match), float(seconds)) for match, seconds in rows]
    fitting = [(sum(map(bool, match.values())), seconds) for match, seconds in entries if _fits(match, facts)]
    return max(fitting, default=(0, 0.0))[1]


def raise_fault(error: str, text: str, subject: str) -> None:
    """Raise the port error of a scripted fault."""
    raise _ERRORS[Failure(error)](text or "scripted fault of the simulation", subject=subject, remedy="try again")


class Script:
    """What is going to go wrong in a simulation, and how long things take. Durations are seconds.

    Every `times` counts down in the file, whichever process is hit; `ALWAYS` lasts until it is cleared. Empty
    arguments match everything; each method that adds a fault returns its number, for `clear` and `hits`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def fail_request(
        self,
        failure: Failure = Failure.TRANSIENT,
        *,
        verb: Verb = Verb.ANY,
        cluster: ClusterKey | None = None,
        kind: str = "",
        kube_namespace: str = "",
        name: str = "",
        times: int = 1,
        text: str = "",
        everywhere: bool = False,
    ) -> int:
        """Requests to the management server (`cluster`: to that target; `everywhere`: to all) end with an error."""
        server = "" if everywhere else self._server(cluster)
        match = {"server": server, "verb": verb.value, "kind": kind, "kube_namespace": kube_namespace, "name": name}
        return self._add(FaultType.REQUEST, match, times, failure.value, text)

    def unreachable(self, cluster: ClusterKey | None, *, times: int = ALWAYS) -> int:
        """Nothing gets through to the management server (None) or to a target."""
        text = "connection refused by the simulated API server"
        return self.fail_request(Failure.TRANSIENT, cluster=cluster, times=times, text=text)

    def fail_command(self, text: str, *, node: str = "", phase: str = "", times: int = 1) -> int:
        """Commands end as Failed on a node (hostname or IP), with `text` in stdErr and without their effect.

        `phase` is the Kubeadm phase or, for other plugins, the plugin's name. One time is one Command with all the
        attempts of its backoffLimit.
        """
        return self._add(FaultType.COMMAND, {"node": node, "phase": phase}, times, "", text)

    def hold_commands(self, *, node: str = "", phase: str = "") -> int:
        """Instructions begin on a node and do not end until this is cleared; `node` and `phase` as above."""
        return self._add(FaultType.COMMAND_HELD, {"node": node, "phase": phase}, ALWAYS, "", "")

    def never_ready(self, kind: str, name: str, *, kube_namespace: str = "", text: str = "ImagePullBackOff") -> int:
        """The next rollouts of a workload stay stuck until this is cleared and the workload changes again."""
        match = {"kind": kind, "name": name, "kube_namespace": kube_namespace}
        return self._add(FaultType.ROLLOUT, match, ALWAYS, "", text)

    def fail_install(self, text: str, *, node: str = "", times: int = 1) -> int:
        """Installations of the node agent fail on a node (IP)."""
        return self._add(FaultType.INSTALL, {"node": node}, times, "", text)

    def agent_down(self, node: str) -> int:
        """The agent of a node (IP) takes up nothing until this is cleared; what it runs goes on."""
        return self._add(FaultType.AGENT_DOWN, {"node": node}, ALWAYS, "", "")

    def etcd_member_down(self, node: str, text: str = "Connection refused") -> int:
        """The etcd member of a node (hostname or IP) does not serve until this is cleared; its pod shows nothing."""
        return self._add(FaultType.ETCD_DOWN, {"node": node}, ALWAYS, "", text)

    def etcd_alarm(self, node: str, alarm: EtcdAlarmType) -> int:
        """An alarm is active on the etcd member of a node until this is cleared."""
        return self._add(FaultType.ETCD_ALARM, {"node": node}, ALWAYS, "", alarm.value)

    def etcd_leader(self, node: str) -> int:
        """The etcd member of a node leads, while it serves; without this, the last one by name does."""
        return self._add(FaultType.ETCD_LEADER, {"node": node}, ALWAYS, "", node)

    def etcd_space(self, node: str, size: int, quota: int) -> int:
        """How large the database of the etcd member of a node is, and how large it may be; bytes."""
        return self._add(FaultType.ETCD_SPACE, {"node": node}, ALWAYS, "", f"{size}/{quota}")

    def damage_snapshot(self, damage: SnapshotDamage, *, node: str = "", times: int = 1) -> int:
        """Snapshots of etcd that an agent says it has taken are not what they should be."""
        return self._add(FaultType.SNAPSHOT, {"node": node}, times, "", damage.value)

    def clear(self, number: int) -> None:
        """End one fault."""
        self._clear("UPDATE faults SET remaining = 0 WHERE id = ?", number)

    def clear_all(self) -> None:
        """End every fault."""
        self._clear("UPDATE faults SET remaining = 0")

    def hits(self, number: int) -> int:
        """How often a fault has struck."""
        with self._database.reading() as session:
            return int(session.one("SELECT hits FROM faults WHERE id = ?", number) or 0)

    def rollout_seconds(self, seconds: float, *, kind: str = "", kube_namespace: str = "", name: str = "") -> None:
        """How long workloads take to roll out."""
        self._set(DurationScope.ROLLOUT, seconds, kind=kind, kube_namespace=kube_namespace, name=name)

    def command_seconds(self, seconds: float, *, phase: str = "", node: str = "") -> None:
        """How long an instruction takes on a node; `phase` and `node` as in `fail_command`."""
        self._set(DurationScope.COMMAND, seconds, phase=phase, node=node)

    def pick_up_seconds(self, seconds: float, *, node: str = "") -> None:
        """How long an agent takes to see a new Command."""
        self._set(DurationScope.PICK_UP, seconds, node=node)

    def static_pod_seconds(self, seconds: float, *, name: str = "") -> None:
        """How long a replaced static pod is not Ready, after its Command has ended."""
        self._set(DurationScope.STATIC_POD, seconds, name=name)

    def install_seconds(self, seconds: float, *, node: str = "") -> None:
        """How long the installation of a node agent takes."""
        self._set(DurationScope.INSTALL, seconds, node=node)

    def job_seconds(self, seconds: float, *, kube_namespace: str = "", name: str = "") -> None:
        """How long a Job runs."""
        self._set(DurationScope.JOB, seconds, kube_namespace=kube_namespace, name=name)

    def _server(self, cluster: ClusterKey | None) -> str:
        if cluster is None:
            return MANAGEMENT
        with self._database.reading() as session:
            known = session.one(
                "SELECT server FROM clusters WHERE kube_namespace = ? AND name = ?",
                cluster.kube_namespace,
                cluster.name,
            )
        return str(known or server_name(cluster))

    def _set(self, scope: DurationScope, seconds: float, **match: str) -> None:
        encoded = json.dumps(match, sort_keys=True)
        with self._database.writing() as session:
            session.execute("INSERT OR REPLACE INTO durations VALUES (?, ?, ?)", scope.value, encoded, seconds)

    def _add(self, fault: FaultType, match: dict[str, str], times: int, error: str, text: str) -> int:
        with self._database.writing() as session:
            cursor = session.execute(
                "INSERT INTO faults (type, match, remaining, error, text) VALUES (?, ?, ?, ?, ?)",
                fault.value, json.dumps(match), times, error, text,
            )  # fmt: skip
            touch(session)
            return int(cursor.lastrowid or 0)

    def _clear(self, sql: str, *values: object) -> None:
        with self._database.writing() as session:
            session.execute(sql, *values)
            for action in ("workload.recheck", "agent.recheck"):
                session.schedule(0.0, action)
            touch(session)
