"""Manifest components: what they would change, and changing it (openfuyao-api.md §7.1 to §7.4; design §2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hopline.domain.client_side_apply import is_client_side_applied
from hopline.domain.differences import plain_difference
from hopline.domain.errors import Conflict, HoplineError, NotFound, Permanent, PortError
from hopline.domain.installation import anchors
from hopline.domain.observation import ComponentSighting, Presence
from hopline.domain.release import ApplyStrategy
from hopline.domain.resources import DEFAULT_FIELD_MANAGER, ObjectRef
from hopline.domain.rollout import rollout_state
from hopline.operations.component_objects import (
    ComponentObjects,
    PlacedObject,
    place_objects,
    render_documents,
    side_by_side,
)
from hopline.operations.dry_run import DryRun
from hopline.operations.live_objects import Live, PlainDifferences, read_live
from hopline.operations.manifest_apply import ComponentWriter, failure_of
from hopline.ports import ClusterClient

__all__ = ["ApplyOutcome", "ComponentObjects", "apply_documents", "look", "render_documents"]


@dataclass(frozen=True)
class ApplyOutcome:
    """What an apply did.

    Attributes:
        changed: the objects that were written, as `Kind namespace/name`.
        unchanged: how many already were as they should be.
        not_installed: the cluster never had the component, so nothing was looked at or written.
        notes: what a person should know: fields taken over or left, objects left out or not checked.
    """

    changed: tuple[str, ...] = ()
    unchanged: int = 0
    not_installed: bool = False
    notes: tuple[str, ...] = ()


def _silent(message: str) -> None:
    """Nobody listens."""


async def apply_documents(
    client: ClusterClient,
    objects: ComponentObjects,
    *,
    field_manager: str = DEFAULT_FIELD_MANAGER,
    on_progress: Callable[[str], None] = _silent,
    seen: PlainDifferences | None = None,
) -> ApplyOutcome:
    """Check the component as a whole, then write what differs, in the order of kinds.

    Idempotent: a repeated call goes on where the last one stopped, and writes nothing when all is there.
    Raises ComponentFailed (with what is written and what remains), or Transient and Conflict for another attempt.
    """
    targets, notes = await place_objects(client, objects)
    if seen is not None and await _written_at_once(client, objects, targets, field_manager, seen):
        return ApplyOutcome((str(targets[0].ref),), notes=tuple(notes))
    live = await read_live(client, targets)
    needed = anchors(objects.component, [target.document for target in targets])
    if not await _is_installed(client, needed, live):
        return ApplyOutcome(not_installed=True)
    writer = ComponentWriter(client, objects, targets, live, field_manager, on_progress)
    await writer.write()
    return ApplyOutcome(tuple(writer.changed), writer.unchanged, False, (*notes, *writer.notes))


async def _written_at_once(
    client: ClusterClient,
    objects: ComponentObjects,
    targets: Sequence[PlacedObject],
    field_manager: str,
    seen: PlainDifferences,
) -> bool:
    """Write a single object that a plan has just seen to differ; False when it has to be looked at after all.

    Raises ComponentFailed when the object itself is refused.
    """
    if len(targets) != 1 or objects.strategy is not ApplyStrategy.SERVER_SIDE_APPLY:
        return False
    target = targets[0]
    if not seen.take(client, target.ref, target.document):
        return False
    try:
        await client.apply(target.document, kind=target.ref.kind, field_manager=field_manager)
    except Conflict:
        return False
    except Permanent as error:
        raise failure_of(objects, target, error) from error
    return True


async def look(
    client: ClusterClient,
    objects: ComponentObjects,
    *,
    field_manager: str = DEFAULT_FIELD_MANAGER,
    known: Live | None = None,
    seen: PlainDifferences | None = None,
) -> ComponentSighting:
    """Is this component version already in the cluster? Changes nothing, and a cluster's errors are an answer.

    Args:
        known: objects that were read a moment ago (`live_objects.read_live`).
        seen: is told of a single object that plainly differs, so that its apply need not look again.
    """
    try:
        return await _look(client, objects, field_manager, known, seen)
    except PortError as error:
        return ComponentSighting(name=objects.component, presence=Presence.COULD_NOT_LOOK, detail=str(error))
    except HoplineError as error:
        return ComponentSighting(name=objects.component, presence=Presence.ABSENT, detail=str(error))


async def _look(
    client: ClusterClient,
    objects: ComponentObjects,
    field_manager: str,
    known: Live | None,
    hints: PlainDifferences | None,
) -> ComponentSighting:
    def seen(presence: Presence, detail: str) -> ComponentSighting:
        return ComponentSighting(name=objects.component, presence=presence, detail=detail)

    targets, _ = await place_objects(client, objects)
    live = await read_live(client, targets, known)
    needed = anchors(objects.component, [target.document for target in targets])
    if not await _is_installed(client, needed, live):
        names = ", ".join(str(anchor) for anchor in needed)
        return seen(Presence.NOT_INSTALLED, f"the cluster has none of its workloads: {names}")
    detail = _plainly_absent(targets, live, objects.strategy)
    found = live[targets[0].ref] if len(targets) == 1 else None
    if detail and hints is not None and found is not None and not is_client_side_applied(found):
        hints.note(client, targets[0].ref, targets[0].document)
    detail = detail or await _absent(client, targets, live, objects.strategy, field_manager)
    if detail:
        return seen(Presence.ABSENT, detail)
    detail = f"a dry run of its {len(targets)} objects changes nothing, and all are rolled out"
    return ComponentSighting(name=objects.component, presence=Presence.PRESENT, current=objects.version, detail=detail)


def _plainly_absent(targets: list[PlacedObject], live: Live, strategy: ApplyStrategy) -> str:
    """Why the component is not there, as far as it shows without a dry run."""
    for target in targets:
        found = live[target.ref]
        if found is None:
            return f"{target.ref} does not exist"
        difference = plain_difference(found, target.document) if strategy is not ApplyStrategy.CREATE_ONLY else ""
        if difference:
            return f"{target.ref} differs in {difference}"
    return ""


async def _absent(
    client: ClusterClient, targets: list[PlacedObject], live: Live, strategy: ApplyStrategy, field_manager: str
) -> str:
    """Why the component is not there, by a dry run and by its rollouts."""
    dry_run = DryRun(client, live, field_manager, strategy)
    intents = await side_by_side(dry_run.intent, targets)
    for target, intent in zip(targets, intents, strict=True):
        if intent.writes and intent.difference != "metadata.managedFields":
            return f"{target.ref} differs in {intent.difference}"
        found = live[target.ref]
        state = rollout_state(found) if found is not None else None
        if state is not None and not state.ready:
            return f"{target.ref} is not rolled out: {state.message}"
    return ""


async def _is_installed(client: ClusterClient, needed: Sequence[ObjectRef], live: Live) -> bool:
    """Whether one of the component's anchors exists; read where it is not among the objects."""
    if not needed or any(live.get(anchor) is not None for anchor in needed):
        return True
    return any(await side_by_side(lambda anchor: _exists(client, anchor), [a for a in needed if a not in live]))


async def _exists(client: ClusterClient, ref: ObjectRef) -> bool:
    try:
        await client.get(ref)
    except NotFound:
        return False
    return True
