"""What the watcher does about a ClusterVersion: pure decisions over what it has seen (design §2.7, §2.8).

A wish is a generation of a ClusterVersion with its desired version. It becomes a run once. After the run's last word
(`hopline.dev/handled: <generation>/<outcome>`) nothing starts again by itself, except: a refused wish, when something
that a refusal can name has changed; a failed or aborted one, when a person sets the retry annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hopline.domain.cluster_checks import LEFTOVERS
from hopline.domain.cluster_version_life import is_contradicted
from hopline.domain.errors import HoplineError
from hopline.domain.resources import (
    ANNOTATION_HANDLED,
    ANNOTATION_PAUSED,
    ANNOTATION_RETRY,
    ANNOTATION_UPGRADE_READY,
    BKE_CLUSTER,
    Document,
)
from hopline.domain.status import RunState


class Move(StrEnum):
    """What there is to do about one cluster."""

    NOTHING = "nothing"
    START = "start"
    """Start the run of this wish, or join it."""
    RETRY = "retry"
    """Answer the retry annotation: by the open run, which goes on when it is held, else by an event."""
    TELL_NO_VERSION = "DesiredVersionMissing"
    TELL_NO_CLUSTER = "BKEClusterNotFound"


@dataclass(frozen=True)
class Wish:
    """One generation of a ClusterVersion, and what it asks for."""

    generation: int
    desired: str


@dataclass(frozen=True)
class Memory:
    """What this process has done about a cluster.

    Attributes:
        wish: the newest one that it has asked for.
        refused_at: the circumstances in which the answer was no; None when it was accepted.
        contradicted: the handled mark at that time, when the answer was that another wish is being carried out.
        retried: the retry annotation that it has passed on.
    """

    wish: Wish | None = None
    refused_at: str | None = None
    contradicted: str | None = None
    retried: str = ""


@dataclass(frozen=True)
class Sight:
    """What the watch has seen of one cluster. `cluster` is None when there is no BKECluster of that name."""

    version: Document
    cluster: Document | None
    catalogues: tuple[Document, ...] = ()
    releases: tuple[Document, ...] = ()
    nodes: tuple[Document, ...] = ()
    retry_gap: int = 0
    """How often the BKECluster has been seen without the retry annotation: the same value again is another retry."""

    @property
    def wish(self) -> Wish:
        """What is asked for now."""
        generation = int(_metadata(self.version).get("generation", 0) or 0)
        return Wish(generation, str(_section(self.version, "spec").get("desiredVersion") or "").strip())

    @property
    def wished_at(self) -> datetime | None:
        """When the desired version was written, as far as the API server tells (to the second)."""
        times = [
            str(entry.get("time", ""))
            for entry in _metadata(self.version).get("managedFields") or ()
            if "f:desiredVersion" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
        ]
        newest = max(times, default="")
        return datetime.fromisoformat(newest) if newest else None

    @property
    def current(self) -> str:
        """The version that the cluster is recorded to have."""
        return str(_section(self.version, "status").get("currentVersion") or "")

    @property
    def is_installing(self) -> bool:
        """No version is recorded and the cluster is not ready: its installation is not over (openfuyao-api.md §3.2)."""
        status = _section(self.cluster or {}, "status")
        return not self.current and not status.get("openFuyaoVersion") and status.get("clusterStatus") != "Ready"

    @property
    def handled(self) -> str:
        """The mark of the last run, `<generation>/<outcome>`."""
        return str(_annotations(self.version).get(ANNOTATION_HANDLED, ""))

    @property
    def outcome(self) -> RunState | None:
        """How the run of this very wish ended; None when it has not."""
        generation, _, outcome = self.handled.partition("/")
        if generation != str(self.wish.generation):
            return None
        return RunState(outcome)

    @property
    def retry_annotation(self) -> str:
        """Which `bke.bocloud.com/retry` stands there, to be compared; empty when there is none."""
        if self.retry_value is None:
            return ""
        return (self.retry_value or "set") + (f" #{self.retry_gap}" if self.retry_gap else "")

    @property
    def retry_value(self) -> str | None:
        """The value of `bke.bocloud.com/retry`: addresses of nodes, or empty for all; None when it is absent."""
        found = _annotations(self.cluster or {}).get(ANNOTATION_RETRY)
        return None if found is None else str(found)

    @property
    def asks_for_upgrade(self) -> bool:
        """Whether another version is asked for than the one that is recorded."""
        return self.wish.desired not in ("", self.current)

    @property
    def nothing_held(self) -> str:
        """What a retry is told that no open run hears, and that starts none."""
        desired, current = self.wish.desired, self.current
        if not desired or desired == current:
            return f"nothing is held: {current or 'no version'} is recorded, and no other version is asked for"
        return f"nothing is held: no upgrade to {desired} is under way"

    @property
    def is_contradicted(self) -> bool:
        """The ClusterVersion shows that its wish waits for the end of another one's run."""
        return is_contradicted(self.version)

    @property
    def circumstances(self) -> str:
        """Everything that a refusal can name, as one text to compare."""
        cluster = self.cluster or {}
        metadata, status = _metadata(cluster), _section(cluster, "status")
        parts: list[object] = [
            metadata.get("uid"),
            metadata.get("generation"),
            _section(cluster, "spec").get("pause"),
            ANNOTATION_PAUSED in _annotations(cluster),
            _annotations(cluster).get(ANNOTATION_UPGRADE_READY),
            status.get("clusterHealthState"),
            status.get("clusterStatus"),
            *_editions(self.catalogues),
            *_editions(self.releases, "phase"),
            *_editions(self.nodes, "state", "stateCode"),
        ]
        return repr(parts)


def is_watched(error: HoplineError) -> bool:
    """Whether a change of what refused is seen by the watch: a field of the BKECluster.

    What an upgrade has left in its health state goes with the health of the cluster's nodes, which nobody watches.
    """
    of_cluster = error.subject.startswith(f"{BKE_CLUSTER.kind} ")
    return of_cluster and error.field.startswith(("spec.", "status.", "metadata.")) and error.value not in LEFTOVERS


def next_move(sight: Sight, memory: Memory) -> Move:
    """What to do now. Asking twice gives the same answer until something changes."""
    if "deletionTimestamp" in _metadata(sight.version) or (sight.cluster is not None and sight.is_installing):
        return Move.NOTHING
    wants_retry = bool(sight.retry_annotation) and sight.retry_annotation != memory.retried
    move = _move_of_wish(sight, memory, wants_retry)
    return Move.RETRY if wants_retry and move is not Move.START else move


def _move_of_wish(sight: Sight, memory: Memory, wants_retry: bool) -> Move:
    wish, outcome = sight.wish, sight.outcome
    if not wish.desired:
        return Move.TELL_NO_VERSION
    if wish.desired == sight.current:
        return Move.NOTHING
    if sight.cluster is None:
        return Move.TELL_NO_CLUSTER
    if outcome in (RunState.FAILED, RunState.ABORTED, RunState.UNKNOWN):
        return Move.START if wants_retry else Move.NOTHING
    if outcome is RunState.DONE:
        return Move.NOTHING
    if memory.wish != wish:
        return Move.START
    if memory.refused_at is None:
        return Move.NOTHING
    if memory.contradicted is not None:
        return Move.START if memory.contradicted != sight.handled else Move.NOTHING
    return Move.START if wants_retry or memory.refused_at != sight.circumstances else Move.NOTHING


def _editions(documents: Iterable[Document], *fields: str) -> list[tuple[object, ...]]:
    """Which edition of each object: name, uid, generation, and the fields of its status that a refusal can name."""
    seen = []
    for document in documents:
        metadata, status = _metadata(document), _section(document, "status")
        said = [status.get(field) for field in fields]
        seen.append((str(metadata.get("name")), metadata.get("uid"), metadata.get("generation"), *said))
    return sorted(seen, key=lambda edition: str(edition[0]))


def _metadata(document: Document) -> Mapping[str, Any]:
    return _section(document, "metadata")


def _annotations(document: Document) -> Mapping[str, Any]:
    return _section(_metadata(document), "annotations")


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}
