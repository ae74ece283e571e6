"""Ties the simulated controllers and agents to the API servers: what follows a write, and what is due by now."""

from __future__ import annotations

import json
from collections.abc import Callable

from hopline.domain.resources import Document
from hopline.sim import agents, budgets, controllers, installer, machines, workloads
from hopline.sim.database import Session
from hopline.sim.storage import Storage

MAX_CHAINED = 100_000
"""Timers carried out by one look; more mean that two of them wake each other for ever."""


def react(storage: Storage, old: Document | None, new: Document | None) -> None:
    """Let the simulated controllers see a write."""
    controllers.react(storage, old, new)
    workloads.react(storage, old, new)
    budgets.react(storage, old, new)
    agents.react(storage, old, new)


_ACTIONS: dict[str, Callable[..., None]] = {
    **workloads.ACTIONS,
    **machines.ACTIONS,
    **agents.ACTIONS,
    **installer.ACTIONS,
}


def run_due(session: Session) -> None:
    """Carry out every timer that is due, in order, each at its own moment."""
    until = session.now
    for _ in range(MAX_CHAINED):
        row = session.execute(
            "SELECT id, due, action, payload FROM timers WHERE due <= ? ORDER BY due, id LIMIT 1", until
        ).fetchone()
        if row is None:
            break
        number, due, action, payload = row
        session.execute("DELETE FROM timers WHERE id = ?", number)
        session.now = float(due)
        _ACTIONS[action](session, **json.loads(payload))
    session.now = until
