"""What clients see of an upgrade, from two traces: the recorded one and ours (the "Keep" list of observed.md).

Compared: the objects at the recorded moments, the values that fields go through, the order of the milestones of each
hop, the objects that are applied, the kinds of write, and the events. Not compared: `force`, rounds of health checks
(`Checking`), `phaseStatus`, the node ConfigMap, times, and what the server makes (uid, resourceVersion).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hopline.domain.resources import ANNOTATION_LAST_UPDATE
from observed_input import VERSIONS
from observed_trace import Objects, Write, Writer, flat

Kept = Mapping[tuple[str, str], Mapping[str, Any]]
"""Kind and `namespace/name` → document."""

RUNNING, COMPLETED, BETWEEN = "hop 1 running", "hop 1 just completed", "between hops"
ARRIVED, SETTLED = "hop 2 just completed", "end, settled"
MOMENTS = (RUNNING, COMPLETED, BETWEEN, ARRIVED, SETTLED)
COMPARED = ("ClusterVersion", "BKECluster", "ReleaseImage", "BKENode")
_INPUT = ("ClusterVersion", "BKECluster")
"""Their owners and finalizers are of the controller and of Cluster API, which are not there."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LEFT_OUT = re.compile(
    r"metadata\.(uid|resourceVersion|creationTimestamp|managedFields)\b|metadata\.ownerReferences\[.*\]\.uid$"
    r"|status\.phaseStatus\b|status\.source$|apiVersion$"
)
"""`source`: the recorded releases came from a registry, ours come from a folder."""
_NOTHING: dict[str, Any] = {}


@dataclass(frozen=True)
class Difference:
    """`place` is `aspect | where`; a side that has nothing there is None."""

    place: str
    recorded: object
    ours: object

    def __str__(self) -> str:
        return f"{self.place}: {self.recorded!r} -> {self.ours!r}"


def _differences(aspect: str, recorded: Mapping[str, Any], ours: Mapping[str, Any]) -> list[Difference]:
    places = dict.fromkeys([*recorded, *ours])
    pairs = ((place, recorded.get(place), ours.get(place)) for place in places)
    return [Difference(f"{aspect} | {place}", old, new) for place, old, new in pairs if old != new]


# Objects at moments.


def compare_moments(recorded: Mapping[str, Kept], ours: Mapping[str, Kept]) -> list[Difference]:
    """Every leaf of every compared object at every moment."""
    found = []
    for moment in MOMENTS:
        there, here = recorded[moment], ours[moment]
        found += _differences(moment, _names(there, here), _names(here, there))
        both = there.keys() & here.keys()
        old, new = _shown_all(there, both), _shown_all(here, both)
        if moment == RUNNING:
            # Ours records while the next components run: how far it is beyond the recorded ones is not fixed.
            new = {place: value for place, value in new.items() if ".completed[" not in place or place in old}
        found += _differences(moment, old, new)
    return found


def _names(objects: Kept, others: Kept) -> dict[str, Any]:
    """Objects that are there on one side only."""
    return {f"{kind} {name}": "there" for kind, name in objects.keys() - others.keys() if kind in COMPARED}


def _shown_all(objects: Kept, keys: Collection[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, name in sorted(key for key in keys if key[0] in COMPARED):
        shown = _shown(objects[kind, name])
        found |= {f"{kind} {name.partition('/')[2]} {path}": value for path, value in shown.items()}
    return found


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    found = flat(document)
    if document["kind"] in _INPUT:
        found = {path: value for path, value in found.items() if not _of_others(path)}
    last = f"metadata.annotations.{ANNOTATION_LAST_UPDATE}"
    if last in found:
        found |= {f"{last} {path}": value for path, value in _last_update(found.pop(last), document).items()}
    return {path: _normal(value) for path, value in found.items() if not _LEFT_OUT.match(path) and value != _NOTHING}


def _of_others(path: str) -> bool:
    return path.startswith(("metadata.finalizers", "metadata.ownerReferences"))


def _last_update(text: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The recording holds a description in its place: that it is name, namespace, spec and the zero values."""
    if text.startswith("<"):
        metadata = {key: document["metadata"][key] for key in ("name", "namespace")}
        parsed: dict[str, Any] = {
            "metadata": {**metadata, "creationTimestamp": "null"},
            "spec": document["spec"],
            "status": {"ready": False, "agentStatus": "{}"},
        }
    else:
        parsed = json.loads(text)
    if parsed.get("spec") == document["spec"]:
        parsed["spec"] = "as spec"
    return flat(parsed)


def _normal(value: object) -> object:
    if not isinstance(value, str):
        return value
    return _DIGEST.sub("<digest>", _TIME.sub("<time>", value))


def moments_of(objects: Objects, writes: Iterable[Write], recorded_first: Iterable[str]) -> dict[str, Kept]:
    """Our objects at the recorded moments. Consumes `writes`, which move `objects` on.

    Args:
        recorded_first: the components that are recorded at the moment `RUNNING`.
    """
    found: dict[str, Kept] = {}
    wanted = set(recorded_first)
    for write in writes:
        now = objects.all()
        if wanted <= _completed(now, VERSIONS[1]):
            found.setdefault(RUNNING, now)
        for version, moment in zip(VERSIONS[1:], (COMPLETED, ARRIVED), strict=True):
            if write.changes.get("status.currentVersion") == version:
                found.setdefault(moment, now)
        if COMPLETED in found and _of(now, "BKECluster")["status"].get("clusterHealthState") == "Healthy":
            found.setdefault(BETWEEN, now)
    found[SETTLED] = objects.all()
    return found


def _of(objects: Kept, kind: str) -> Mapping[str, Any]:
    (document,) = [document for (of, _), document in objects.items() if of == kind]
    return document


def _completed(objects: Kept, target: str) -> set[str]:
    progress = _of(objects, "BKECluster")["status"].get("declarativeUpgrade") or {}
    if progress.get("targetVersion") != target:
        return set()
    return {entry["name"] for entry in progress.get("completed") or ()}


# The values of a field, one after another.

FIELDS = (
    ("clusterversions", "spec.desiredVersion"),
    ("clusterversions", "status.phase"),
    ("clusterversions", "status.currentVersion"),
    ("bkeclusters", "metadata.annotations.cvo.openfuyao.cn/upgrade-ready"),
    ("bkeclusters", "metadata.annotations.cvo.openfuyao.cn/cluster-version"),
    ("bkeclusters", "metadata.annotations.cvo.openfuyao.cn/upgrade-path"),
    ("bkeclusters", "spec.clusterConfig.cluster.openFuyaoVersion"),
    ("bkeclusters", "status.clusterStatus"),
    ("bkeclusters", "status.clusterHealthState"),
    ("bkeclusters", "status.openFuyaoVersion"),
    ("bkeclusters", "status.declarativeUpgrade.targetVersion"),
)


def compare_values(recorded: Sequence[Write], ours: Sequence[Write]) -> list[Difference]:
    """The values that each of `FIELDS` takes, in order, rounds of health checks left out."""

    def values(writes: Sequence[Write]) -> dict[str, Any]:
        return {f"{resource} {path}": _values(writes, resource, path) for resource, path in FIELDS}

    return _differences("values", values(recorded), values(ours))


def _values(writes: Sequence[Write], resource: str, path: str) -> list[Any]:
    taken = [write.changes[path] for write in writes if write.resource == resource and path in write.changes]
    return [value for value, _ in itertools.groupby(value for value in taken if value != "Checking")]


# The order of what happens in a hop.

_APPLIED = ("configmaps", "deployments", "daemonsets")
_PROGRESS = "status.declarativeUpgrade"
_READY = "metadata.annotations.cvo.openfuyao.cn/upgrade-ready"


def compare_order(recorded: Sequence[Write], ours: Sequence[Write]) -> list[Difference]:
    """Two milestones of a hop the other way round, or one write where the recording has one."""
    found = []
    for hop in range(1, len(VERSIONS)):
        old, new = _milestones(recorded, hop), _milestones(ours, hop)
        found += _differences(f"hop {hop}", {k: k in old for k in old}, {k: k in new for k in new})
        for first, second in itertools.combinations([name for name in old if name in new], 2):
            before, after = old[second] - old[first], new[second] - new[first]
            if before * after < 0 or (before == 0 and after != 0):
                words = [_relation(first, second, gap) for gap in (before, after)]
                found.append(Difference(f"hop {hop} | order of {first} and {second}", *words))
    return found


def _relation(first: str, second: str, gap: int) -> str:
    if gap == 0:
        return "together"
    return f"{first if gap > 0 else second} first"


def _milestones(writes: Sequence[Write], hop: int) -> dict[str, int]:
    """Milestone → which write it is."""
    version = VERSIONS[hop]
    image = f"/release-{version}"
    answers: dict[str, Callable[[Write], bool]] = {
        "ReleaseImage made": lambda w: w.kind_of_write == "create releaseimages" and w.name.endswith(image),
        "ReleaseImage Valid": lambda w: w.name.endswith(image) and w.changes.get("status.phase") == "Valid",
        "annotations": lambda w: w.changes.get(_READY) == version,
        "upgrade-path": lambda w: (
            str(w.changes.get(_READY.replace("ready", "path"))).endswith(VERSIONS[-1])
            and w.changes.get(_READY) == version
        ),
        "versions declared": lambda w: w.changes.get("spec.clusterConfig.cluster.openFuyaoVersion") == version,
        "progress begins": lambda w: w.changes.get(f"{_PROGRESS}.targetVersion") == version,
        "progress ends": lambda w: (
            w.changes.get("status.openFuyaoVersion") == version and bool(w.changes.get(f"{_PROGRESS}.finishedAt"))
        ),
        "version reported": lambda w: w.changes.get("status.openFuyaoVersion") == version,
        "current version": lambda w: w.changes.get("status.currentVersion") == version,
        "history": lambda w: w.changes.get(f"status.upgradeHistory[{hop - 1}].to") == version,
    }
    found = {name: [place for place, write in enumerate(writes) if is_it(write)][:1] for name, is_it in answers.items()}
    found |= {
        "cluster Upgrading": _nth(writes, "status.clusterHealthState", "Upgrading", hop),
        "cluster Healthy": _nth(writes, "status.clusterHealthState", "Healthy", hop),
        "annotations removed": _nth(writes, _READY, None, hop),
    }
    applied = [places[0] for places in _applies(writes, hop).values()]
    found |= {"first apply": [min(applied)], "last apply": [max(applied)]} if applied else {}
    return {name: places[0] for name, places in found.items() if places}


def _nth(writes: Sequence[Write], path: str, value: object, number: int) -> list[int]:
    places = [p for p, w in enumerate(writes) if path in w.changes and w.changes[path] == value]
    return places[number - 1 : number]


# What is applied.


def _applies(writes: Sequence[Write], hop: int) -> dict[str, tuple[int, Write]]:
    """`resource namespace/name` → place and write of its apply in a hop: its n-th one."""
    found: dict[str, list[tuple[int, Write]]] = {}
    for place, write in enumerate(writes):
        if write.writer is Writer.TARGET and write.resource in _APPLIED and not write.subresource:
            found.setdefault(f"{write.resource} {write.name}", []).append((place, write))
    return {name: applied[hop - 1] for name, applied in found.items() if len(applied) >= hop}


def compare_applies(recorded: Sequence[Write], ours: Sequence[Write], batch_of: Mapping[str, int]) -> list[Difference]:
    """What each apply changes, under which field manager, and in which order the batches come.

    Args:
        batch_of: `resource namespace/name` → batch of the object's component.
    """
    found = []
    for hop in range(1, len(VERSIONS)):
        old, new = _applies(recorded, hop), _applies(ours, hop)
        found += _differences(f"hop {hop} applies", _contents(old), _contents(new))
        order = [[batch_of.get(name) for name, _ in sorted(of.items(), key=lambda kv: kv[1][0])] for of in (old, new)]
        found += _differences(f"hop {hop}", {"order of batches": order[0]}, {"order of batches": order[1]})
    counts = [sum(w.writer is Writer.TARGET for w in writes) for writes in (recorded, ours)]
    return found + _differences("all hops", {"writes to the target": counts[0]}, {"writes to the target": counts[1]})


def _contents(applies: Mapping[str, tuple[int, Write]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (_, write) in applies.items():
        found[f"{name} as"] = f"{write.verb} {' '.join(re.findall('fieldManager=[^&]*', write.query))}"
        found |= {f"{name} {path}": value for path, value in write.changes.items() if path.startswith(("spec", "data"))}
    return found


# Which kinds of write there are, and the events.


def compare_kinds(recorded: Sequence[Write], ours: Sequence[Write]) -> list[Difference]:
    """Which resources are written how by whom, and how often each object of a hop is."""

    def kinds(writes: Sequence[Write]) -> dict[str, Any]:
        return {f"{write.writer.name.lower()} {write.kind_of_write}": True for write in writes}

    return _differences("kinds of write", kinds(recorded), kinds(ours))


def compare_events(recorded: Sequence[Write], ours: Sequence[Write]) -> list[Difference]:
    """Type and reason of the events on each kind of object."""

    def reasons(writes: Sequence[Write]) -> dict[str, Any]:
        events = (write for write in writes if write.resource == "events")
        return {f"{e.name.split('/')[1]} {e.changes['reason']}": e.changes["type"] for e in events}

    return _differences("events", reasons(recorded), reasons(ours))
