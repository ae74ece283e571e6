"""What really happened in a simulation, so that a test can count that nothing ran twice."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from hopline.domain.errors import NotFound
from hopline.sim.database import Session


class EffectType(StrEnum):
    """Classes of effects."""

    WRITE = "write"
    """A request of a client that changed an object. Dry runs and writes without a change are none."""
    COMMAND = "command"
    """One instruction of a Command on one node."""
    INSTALL = "install"
    """One installation of a node agent."""
    VIOLATION = "violation"
    """Something that must not happen to a real node: two Commands at once on it."""


class Effect(BaseModel):
    """One entry.

    Attributes:
        verb: create, patch, patch status, apply, delete; the plugin of a COMMAND; empty otherwise.
        subject: the object, as `Kind namespace/name`; of a COMMAND the Command.
        server: name of the API server that was written to.
        manager: field manager of a write.
        fields: leaf paths that a write changed, at most 40.
        node: `hostname/ip` of a COMMAND, INSTALL or VIOLATION.
        arguments: instruction of a COMMAND without the plugin's name; version of an INSTALL.
        started, ended: unix seconds; `ended` is None while it runs, and they are equal for a write.
        outcome: `done`, `failed`, `lost` (the agent was restarted), `running`.
    """

    model_config = ConfigDict(frozen=True)

    id: int = 0
    type: EffectType
    verb: str = ""
    subject: str = ""
    server: str = ""
    manager: str = ""
    fields: tuple[str, ...] = ()
    node: str = ""
    arguments: tuple[str, ...] = ()
    started: float = 0.0
    ended: float | None = None
    outcome: str = "done"
    detail: str = ""


def record(session: Session, effect: Effect) -> int:
    """Append an entry; its number."""
    cursor = session.execute(
        "INSERT INTO journal (type, record) VALUES (?, ?)", effect.type.value, effect.model_dump_json()
    )
    return int(cursor.lastrowid or 0)


def close(session: Session, number: int, *, outcome: str, detail: str = "") -> None:
    """Say how an entry that was running ended."""
    text = session.one("SELECT record FROM journal WHERE id = ?", number)
    if text is None:
        raise NotFound("the journal has no such entry", subject="journal", field="id", value=str(number))
    effect = Effect.model_validate_json(text)
    ended = effect.model_copy(update={"ended": session.now, "outcome": outcome, "detail": detail or effect.detail})
    session.execute("UPDATE journal SET record = ? WHERE id = ?", ended.model_dump_json(), number)


def read(session: Session, *types: EffectType) -> list[Effect]:
    """All entries in order, or those of some classes."""
    rows = session.execute("SELECT id, record FROM journal ORDER BY id")
    effects = [Effect.model_validate_json(text).model_copy(update={"id": number}) for number, text in rows]
    return [effect for effect in effects if not types or effect.type in types]
