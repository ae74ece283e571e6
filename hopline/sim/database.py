"""The file that holds a simulation: one SQLite database, used by several processes at once.

WAL with `synchronous=OFF`: a process that is killed in the middle of a transaction leaves the file as it was before it,
and everything committed stays; only a machine that loses its power may lose the file. Time passes by itself: what is
due is a row of `timers` and is carried out, in one transaction, by whoever looks next.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hopline.domain.errors import Transient

BUSY_SECONDS = 8.0
"""How long a transaction waits for another process; below the 10 s that the port promises."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    server TEXT, api_version TEXT, kind TEXT, kube_namespace TEXT, name TEXT, uid TEXT NOT NULL, document TEXT NOT NULL,
    PRIMARY KEY (server, api_version, kind, kube_namespace, name)) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS objects_by_uid ON objects (uid);
CREATE TABLE IF NOT EXISTS owners (
    server TEXT, owner_uid TEXT, uid TEXT, PRIMARY KEY (server, owner_uid, uid)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    revision INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT NOT NULL, api_version TEXT NOT NULL, kind TEXT NOT NULL,
    kube_namespace TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS served (
    server TEXT, api_version TEXT, kind TEXT, namespaced INTEGER NOT NULL, has_status INTEGER NOT NULL,
    crd TEXT NOT NULL, PRIMARY KEY (server, api_version, kind)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS timers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, due REAL NOT NULL, action TEXT NOT NULL, payload TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS timers_by_due ON timers (due, id);
CREATE TABLE IF NOT EXISTS clusters (
    kube_namespace TEXT, name TEXT, server TEXT NOT NULL, PRIMARY KEY (kube_namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, command_uid TEXT NOT NULL, kube_namespace TEXT NOT NULL, name TEXT NOT NULL,
    hostname TEXT NOT NULL, ip TEXT NOT NULL, generation INTEGER NOT NULL, state TEXT NOT NULL, record TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS tasks_by_node ON tasks (kube_namespace, ip, state);
CREATE TABLE IF NOT EXISTS node_states (
    cluster TEXT, ip TEXT, field TEXT, value TEXT NOT NULL, PRIMARY KEY (cluster, ip, field)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS installs (
    cluster TEXT, ip TEXT, version TEXT NOT NULL, phase TEXT NOT NULL, message TEXT NOT NULL, effect INTEGER NOT NULL,
    PRIMARY KEY (cluster, ip)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS faults (
    id INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, match TEXT NOT NULL, remaining INTEGER NOT NULL,
    hits INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS durations (
    scope TEXT, match TEXT, seconds REAL NOT NULL, PRIMARY KEY (scope, match)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, record TEXT NOT NULL);
"""


class Session:
    """One transaction.

    Attributes:
        now: unix seconds; while a timer is carried out, the moment it was due.
    """

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self._connection = connection
        self.now = now

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        """One statement with positional values."""
        return self._connection.execute(sql, values)

    def one(self, sql: str, *values: object) -> Any:
        """First column of the first row, or None."""
        row = self._connection.execute(sql, values).fetchone()
        return None if row is None else row[0]

    def revision(self) -> int:
        """The revision of the last change; it never goes back, also when old changes are forgotten."""
        return int(self.one("SELECT seq FROM sqlite_sequence WHERE name = 'changes'") or 0)

    def schedule(self, after: float, action: str, **payload: Any) -> None:
        """Carry out `action` in `after` seconds."""
        self.execute(
            "INSERT INTO timers (due, action, payload) VALUES (?, ?, ?)", self.now + after, action, json.dumps(payload)
        )

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo everything that is done inside, but let it be seen there (dry run)."""
        self.execute("SAVEPOINT trial")
        try:
            yield
        finally:
            self.execute("ROLLBACK TO trial")
            self.execute("RELEASE trial")


RunDue = Callable[[Session], None]


class Database:
    """Connection to the file. Every call is one transaction and safe from any thread; none is asynchronous."""

    def __init__(self, path: Path, *, run_due: RunDue, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._run_due = run_due
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")
        if self._connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'journal'").fetchone()[0] == 0:
            self._connection.executescript(SCHEMA)

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction that may write; what is due happens first. Rolled back when the body raises."""
        with self._begun("BEGIN IMMEDIATE") as session:
            self._run_due(session)
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A consistent view of the file, with everything done that is due by now."""
        with self._lock:
            if self._has_due():
                with self.writing():
                    pass
            with self._begun("BEGIN") as session:
                yield session

    def pulse(self) -> tuple[int, float | None]:
        """The revision, and the seconds until the next timer (None: nothing is scheduled)."""
        with self.reading() as session:
            due = session.one("SELECT min(due) FROM timers")
            return session.revision(), None if due is None else max(0.0, float(due) - self._clock())

    def _has_due(self) -> bool:
        return self._attempt("SELECT 1 FROM timers WHERE due <= ? LIMIT 1", self._clock()).fetchone() is not None

    def _attempt(self, statement: str, *values: object) -> sqlite3.Cursor:
        """A statement that another process may hold up."""
        try:
            return self._connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise Transient(
                f"the simulated API server does not answer: {error}", subject=str(self.path), remedy="try again"
            ) from error

    @contextmanager
    def _begun(self, statement: str) -> Iterator[Session]:
        with self._lock:
            self._attempt(statement)
            try:
                yield Session(self._connection, self._clock())
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
