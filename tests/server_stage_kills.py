"""Stages of a node on a real API server at which a worker dies, and the worker that stops there until it is killed.

    python -m server_stage_kills STAGES

It is the worker of the product with one thing more: of each node that the file STAGES names, the call of its stage is
held for ever, before or after its effect, and a line of the log tells that it came there. Nothing holds it by time:
requests have limits, so they are held around the client and not on the wire.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import worker.__main__ as product
from hooked_clusters import Call, Gate, Hook, HookedClusters, in_turn
from hopline.domain.resources import ANNOTATION_TAKEN_BY
from hopline.operations.nodes import STATE_READY, STATE_UPGRADING
from hopline.runtime.settings import Settings
from hopline.wiring import Ports, build_ports

REACHED = "reached "


@dataclass(frozen=True)
class Place:
    """The node of a stage, and the beginning of the name of a pod that has to leave it."""

    host: str
    ip: str
    pod: str


Fits = Callable[[Call, Place], bool]


@dataclass(frozen=True)
class Stage:
    """`after`: the effect has happened; `seen`: it is something that a watch tells."""

    fits: Fits
    after: bool = False
    seen: bool = False


def _cordons(call: Call, place: Place) -> bool:
    return call.subject == f"Node {place.host}" and call.body.get("spec", {}).get("unschedulable") is True


def _uncordons(call: Call, place: Place) -> bool:
    taken: Any = call.body.get("metadata", {}).get("annotations", {})
    return call.subject == f"Node {place.host}" and taken.get(ANNOTATION_TAKEN_BY, "") is None


def _marks(state: str) -> Fits:
    def fits(call: Call, place: Place) -> bool:
        is_it = call.subject.startswith("BKENode ") and call.subject.endswith(f"-{place.ip.replace('.', '-')}")
        return is_it and call.body.get("status", {}).get("state") == state

    return fits


def _evicts(call: Call, place: Place) -> bool:
    return call.verb == "evict" and f"/{place.pod}" in call.subject


def _is_command_for(call: Call, place: Place) -> bool:
    is_command = call.subject.startswith("Command ")
    return is_command and place.ip in call.body["spec"].get("nodeSelector", {}).get("matchLabels", {})


def _commands(call: Call, place: Place) -> bool:
    return call.verb == "create" and _is_command_for(call, place)


def _tells(phase: str) -> Fits:
    """The Command, as its agent shows it."""

    def fits(call: Call, place: Place) -> bool:
        told = (call.body.get("status") or {}).values()
        return _is_command_for(call, place) and phase in {one.get("phase") for one in told}

    return fits


EFFECTS: dict[str, Fits] = {
    "cordon": _cordons,
    "state-upgrading": _marks(STATE_UPGRADING),
    "eviction": _evicts,
    "command": _commands,
    "uncordon": _uncordons,
    "state-ready": _marks(STATE_READY),
}
"""In the order of a node's turn."""

RUNNING, ANSWER, WELL = "running", "answer", "well"
"""Its agent is at work; it is done, and nobody has read that; the node is not well yet after it (nothing is held)."""

STAGES = {
    **{f"{name}-before": Stage(fits) for name, fits in EFFECTS.items()},
    **{f"{name}-after": Stage(fits, after=True) for name, fits in EFFECTS.items()},
    RUNNING: Stage(_tells("Running"), seen=True),
    ANSWER: Stage(_tells("Completed"), seen=True),
}


def effects_until(title: str) -> tuple[str, ...]:
    """What has happened to a node when it is at a stage."""
    order = tuple(EFFECTS)
    name, _, when = title.rpartition("-")
    last = order.index(name) if name in order else order.index("command")
    return order[:last] if when == "before" else order[: last + 1]


def main(file: Path) -> None:
    """Work until killed."""
    places = {title: Place(**place) for title, place in json.loads(file.read_text()).items()}
    telling: list[asyncio.Task[None]] = []

    async def held(settings: Settings) -> Ports:
        ports = await build_ports(settings)
        clusters = HookedClusters(ports.clusters)
        gates = {title: Gate(_fitting(STAGES[title].fits, place)) for title, place in places.items()}
        kept = (Gate(_coming_again(gate, places[title])) for title, gate in gates.items())
        clusters.before = in_turn(*kept, _of(gates, lambda stage: not stage.after and not stage.seen))
        clusters.after = _of(gates, lambda stage: stage.after)
        clusters.seen = _of(gates, lambda stage: stage.seen)
        telling.extend(asyncio.create_task(_tell(title, gate)) for title, gate in gates.items())
        return Ports(clusters=clusters, releases=ports.releases, catalogue=ports.catalogue)

    sys.argv = sys.argv[:1]
    vars(product)["build_ports"] = held
    product.main()


def _fitting(fits: Fits, place: Place) -> Callable[[Call], bool]:
    return lambda call: fits(call, place)


def _coming_again(gate: Gate, place: Place) -> Callable[[Call], bool]:
    """On a slow machine an attempt that is held may run out of time: the next one must not lead beyond the stage."""
    return lambda call: gate.is_reached and any(fits(call, place) for fits in EFFECTS.values())


def _of(gates: dict[str, Gate], chosen: Callable[[Stage], bool]) -> Hook:
    return in_turn(*(gate for title, gate in gates.items() if chosen(STAGES[title])))


async def _tell(title: str, gate: Gate) -> None:
    await gate.reached(600)
    print(f"{REACHED}{title}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
