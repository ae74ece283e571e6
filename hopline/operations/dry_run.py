"""What a write would do, asked of the API server before anything is written, and whose fields stay whose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hopline.domain.client_side_apply import is_client_side_applied, outdated_fields
from hopline.domain.differences import first_difference, same_ownership
from hopline.domain.errors import AlreadyExists, ComponentFailed, Conflict, Rejected, Transient
from hopline.domain.ownership import INSTALLERS, settle, without_field
from hopline.domain.release import ApplyStrategy
from hopline.domain.resources import Document, ObjectRef
from hopline.operations.component_objects import PlacedObject
from hopline.ports import ClusterClient

MAX_ROUNDS = 5
"""Dry runs of one object: a settled conflict can uncover another one, and a controller may write between two looks."""

_NO_DRY_RUN = "does not support dry run"
SHOWN = 5
"""Names in one message; the others are counted."""


@dataclass(frozen=True)
class Intent:
    """How one object will be written.

    Attributes:
        document: what is applied: without the fields that stay with another manager.
        force: takes the fields of installers; never set for another reason.
        difference: path of the first field that changes; `metadata.managedFields` when only the owners do.
        replaces: uid of the object that is deleted first.
        taken, kept: (field manager, field) of what became ours by force, and of what stays with its owner.
        unchecked: why no dry run could be made; empty when one was made.
        adopts: the fields of a client-side apply become ours first, by a patch of `metadata.managedFields`.
        outdated: fields that go with that, because the manifest does not have them.
    """

    document: Document
    writes: bool = True
    force: bool = False
    difference: str = ""
    replaces: str = ""
    taken: tuple[tuple[str, str], ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    unchecked: str = ""
    adopts: bool = False
    outdated: tuple[str, ...] = ()

    def notes(self, ref: ObjectRef) -> list[str]:
        """What a person should know about writing this object."""
        told = [f"{ref}: not checked by a dry run, {self.unchecked}"] if self.unchecked else []
        for owners, what in ((self.taken, "taken over from"), (self.kept, "left with")):
            told.extend(
                f"{ref}: {what} {manager}: {short([field for owner, field in owners if owner == manager])}"
                for manager in sorted({manager for manager, _ in owners})
            )
        if self.writes and self.adopts:
            gone = f", and what it no longer has is removed: {short(self.outdated)}" if self.outdated else ""
            told.append(f"{ref}: all fields of an earlier kubectl apply (client-side) are ours now{gone}")
        return told


def short(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


class DryRun:
    """Asks the API server what a write would do, and settles whose fields are whose."""

    def __init__(
        self,
        client: ClusterClient,
        live: Mapping[ObjectRef, Document | None],
        field_manager: str,
        strategy: ApplyStrategy = ApplyStrategy.SERVER_SIDE_APPLY,
        installers: Sequence[str] = INSTALLERS,
    ) -> None:
        self._client = client
        self._live = live
        self._field_manager = field_manager
        self._strategy = strategy
        self._installers = installers

    async def intent(self, target: PlacedObject) -> Intent:
        """What would be written. Raises ComponentFailed when the object cannot be written as it is."""
        live = self._live[target.ref]
        if self._strategy is ApplyStrategy.CREATE_ONLY:
            return await self._creation(target, live)
        if self._strategy is not ApplyStrategy.REPLACE or live is None:
            return await self._application(target, live)
        try:
            intent = await self._application(target, live)
        except (Rejected, Conflict, ComponentFailed) as error:
            intent = Intent(target.document, unchecked=f"and replaced because {error.message}")
        if not intent.writes:
            return intent
        return replace(intent, document=target.document, replaces=live["metadata"]["uid"], adopts=False, outdated=())

    async def _creation(self, target: PlacedObject, live: Document | None) -> Intent:
        if live is not None:
            return Intent(target.document, writes=False)
        try:
            await self._client.create(target.document, kind=target.ref.kind, dry_run=True)
        except AlreadyExists:
            return Intent(target.document, writes=False)
        return Intent(target.document)

    async def _application(self, target: PlacedObject, live: Document | None) -> Intent:
        intent = Intent(target.document)
        for _ in range(MAX_ROUNDS):
            try:
                would = await self._client.apply(
                    intent.document,
                    kind=target.ref.kind,
                    field_manager=self._field_manager,
                    force=intent.force,
                    dry_run=True,
                )
            except Conflict as conflict:
                intent = self._settled(target, intent, conflict)
            except Rejected as error:
                if _NO_DRY_RUN not in error.message:
                    raise
                return replace(intent, unchecked=error.message)
            else:
                compared = self._compared(intent, live, would)
                if not compared.writes or live is None or _same_revision(live, would):
                    return compared
                live = await self._client.get(target.ref)
        raise Transient(
            "the object changes too fast to be compared with its manifest",
            subject=str(target.ref),
            remedy=f"kubectl get -o yaml --show-managed-fields shows who changes which field of {target.ref}",
        )

    def _settled(self, target: PlacedObject, intent: Intent, conflict: Conflict) -> Intent:
        """The intent after a conflict: fields of installers are taken, others are left out."""
        if not conflict.owners:
            raise conflict
        settlement = settle(conflict.owners, self._installers)
        document, blocked, kept = intent.document, list(settlement.blocked), list(intent.kept)
        for manager, field in settlement.kept:
            smaller = without_field(document, field)
            if smaller is None:
                blocked.append((manager, field))
            else:
                document = smaller
                kept.append((manager, field))
        if blocked:
            raise _owned_by_others(target, blocked)
        taken = [entry for entry in settlement.taken if entry[0] != self._field_manager and entry not in intent.taken]
        return replace(
            intent,
            document=document,
            force=intent.force or bool(settlement.taken),
            taken=(*intent.taken, *taken),
            kept=tuple(kept),
        )

    def _compared(self, intent: Intent, live: Document | None, would: Document) -> Intent:
        if live is None:
            return replace(intent, difference="metadata.name")
        if is_client_side_applied(live):
            outdated = tuple(outdated_fields(live, would))
            intent = replace(intent, adopts=True, outdated=outdated)
        difference = first_difference(live, would) or next(iter(intent.outdated), "")
        if difference:
            return replace(intent, difference=difference)
        if same_ownership(live, would, self._field_manager):
            return replace(intent, writes=False)
        return replace(intent, difference="metadata.managedFields")


def _same_revision(live: Document, would: Document) -> bool:
    """Whether a dry run was made on the object that was read; a controller may have written in between."""
    return bool(live["metadata"].get("resourceVersion") == would["metadata"].get("resourceVersion"))


def _owned_by_others(target: PlacedObject, blocked: Sequence[tuple[str, str]]) -> ComponentFailed:
    fields = ", ".join(field for _, field in blocked[:SHOWN])
    managers = ", ".join(sorted({manager for manager, _ in blocked}))
    return ComponentFailed(
        f"{target.ref} has fields that an upgrade must set and that belong to {managers}",
        subject=target.place,
        field=fields,
        remedy=f"let {managers} give them up (remove them from what it applies), or delete the object, then retry",
    )
