"""Writing the objects of a component: all checked by a dry run first, then written class by class.

One object costs one read and one dry run; the write follows only where the dry run shows a change. A single object
that plainly differs is written without a dry run: its own write is refused or taken as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hopline.domain.apply_order import apply_class
from hopline.domain.client_side_apply import is_client_side_applied, taken_over
from hopline.domain.differences import plain_difference
from hopline.domain.errors import AlreadyExists, ComponentFailed, Conflict, NotFound, Permanent
from hopline.domain.release import ApplyStrategy
from hopline.domain.resources import Document, ObjectRef
from hopline.operations.component_objects import ComponentObjects, PlacedObject, side_by_side
from hopline.operations.dry_run import DryRun, Intent, short
from hopline.operations.object_waits import wait_until_established, wait_until_gone, wait_until_served
from hopline.operations.webhook_servers import servers_of, wait_for_servers
from hopline.ports import ClusterClient

ADOPTIONS = 5
"""Attempts to take over the fields of a client-side apply, when controllers write the object meanwhile (kubectl: 5)."""


class ComponentWriter:
    """Writes one component. `changed` and `unchanged` grow as it goes, so that a failure can tell how far it got."""

    def __init__(
        self,
        client: ClusterClient,
        objects: ComponentObjects,
        targets: Sequence[PlacedObject],
        live: Mapping[ObjectRef, Document | None],
        field_manager: str,
        tell: Callable[[str], None],
    ) -> None:
        self._client = client
        self._objects = objects
        self._targets = sorted(targets, key=lambda target: apply_class(target.document))
        self._live = live
        self._field_manager = field_manager
        self._tell = tell
        self._dry_run = DryRun(client, live, field_manager, objects.strategy)
        self._intents: dict[ObjectRef, Intent] = {}
        self.changed: list[str] = []
        self.unchanged = 0
        self.notes: list[str] = []

    async def write(self) -> None:
        """Check everything, then write what differs. Raises ComponentFailed, with what is written and what is not."""
        deferred = self._deferred()
        checked = [target for target in self._targets if target.ref not in deferred]
        if not self._is_plain(checked):
            await side_by_side(self._check, checked)
        for _, group in _groups(self._targets):
            await self._ready_for(group)
            await side_by_side(self._write, group)

    async def _ready_for(self, group: Sequence[PlacedObject]) -> None:
        """What the objects of a class need before they can be written: their kinds, and the servers of webhooks."""
        brought = {target.ref.kind for target in group if not target.served}
        if brought:
            definitions = [target.ref for target in self._targets if target.is_definition]
            await side_by_side(lambda ref: wait_until_established(self._client, ref), definitions)
            await side_by_side(lambda kind: wait_until_served(self._client, kind), brought)
        guards = [target for target in group if self._is_new(target)]
        servers = servers_of([target.document for target in guards], self._objects.placed_documents)
        if servers:
            try:
                await wait_for_servers(self._client, self._objects, servers)
            except ComponentFailed as error:
                raise self._failed(guards[0], error) from error

    def _is_new(self, target: PlacedObject) -> bool:
        """Whether this object is going to be written."""
        intent = self._intents.get(target.ref)
        return intent is None or intent.writes

    def _deferred(self) -> frozenset[ObjectRef]:
        """Objects that cannot be dry-run yet, because the component itself brings their kind or their Namespace.

        They are new, so their own write is their check.
        """
        places = {t.ref.name for t in self._targets if t.is_namespace and self._live[t.ref] is None}
        return frozenset(t.ref for t in self._targets if not t.served or t.ref.kube_namespace in places)

    def _is_plain(self, checked: Sequence[PlacedObject]) -> bool:
        """A single object that certainly changes: its write is its own check."""
        if len(self._targets) != 1 or not checked or self._objects.strategy is not ApplyStrategy.SERVER_SIDE_APPLY:
            return False
        live = self._live[checked[0].ref]
        if live is None or (plain_difference(live, checked[0].document) and not is_client_side_applied(live)):
            self._intents[checked[0].ref] = Intent(checked[0].document)
            return True
        return False

    async def _check(self, target: PlacedObject) -> None:
        try:
            self._intents[target.ref] = await self._dry_run.intent(target)
        except (Permanent, ComponentFailed) as error:
            raise self._failed(target, error) from error
        self._tell(f"checked {len(self._intents)} of {len(self._targets)} objects, last {target.ref}")

    async def _write(self, target: PlacedObject) -> None:
        try:
            intent = self._intents.get(target.ref) or Intent(target.document)
            if intent.writes:
                intent = await self._put(target, intent)
        except (Permanent, ComponentFailed) as error:
            raise self._failed(target, error) from error
        self._intents[target.ref] = intent
        self.notes.extend(intent.notes(target.ref))
        if intent.writes:
            self.changed.append(str(target.ref))
        else:
            self.unchanged += 1
        self._tell(f"applied {len(self.changed) + self.unchanged} of {len(self._targets)} objects, last {target.ref}")

    async def _put(self, target: PlacedObject, intent: Intent) -> Intent:
        """Write one object; the intent that was carried out."""
        kind = target.ref.kind
        if self._objects.strategy is ApplyStrategy.CREATE_ONLY:
            try:
                await self._client.create(intent.document, kind=kind)
            except AlreadyExists:
                return replace(intent, writes=False)
            return intent
        if intent.replaces:
            await self._delete(target.ref, intent.replaces)
        if intent.adopts:
            await self._adopt(target.ref)
        try:
            await self._apply(target, intent)
        except Conflict as conflict:
            if not conflict.owners:
                raise
            intent = await self._dry_run.intent(target)
            await self._apply(target, intent)
        return intent

    async def _apply(self, target: PlacedObject, intent: Intent) -> None:
        await self._client.apply(
            intent.document, kind=target.ref.kind, field_manager=self._field_manager, force=intent.force
        )

    async def _adopt(self, ref: ObjectRef) -> None:
        """Make the fields of a client-side apply ours, so that what the manifest no longer has can go."""
        live = self._live[ref]
        for _ in range(ADOPTIONS):
            if live is None or not is_client_side_applied(live):
                return
            metadata = {
                "managedFields": taken_over(live, self._field_manager),
                "resourceVersion": live["metadata"]["resourceVersion"],
            }
            try:
                await self._client.patch(ref, {"metadata": metadata})
            except Conflict:
                live = await self._client.get(ref)
            else:
                return

    async def _delete(self, ref: ObjectRef, uid: str) -> None:
        try:
            await self._client.delete(ref, uid=uid)
        except NotFound:
            return
        await wait_until_gone(self._client, ref, uid)

    def _failed(self, target: PlacedObject, error: Permanent | ComponentFailed) -> Permanent | ComponentFailed:
        return failure_of(self._objects, target, error, self.changed, self._targets)


def failure_of(
    objects: ComponentObjects,
    target: PlacedObject,
    error: Permanent | ComponentFailed,
    changed: Sequence[str] = (),
    targets: Sequence[PlacedObject] = (),
) -> Permanent | ComponentFailed:
    """A permanent error as the component's failure; an object that changed meanwhile is only looked at again."""
    if isinstance(error, Conflict) and not error.owners:
        return error
    progress = "nothing was written"
    if changed:
        remaining = [str(one.ref) for one in targets if str(one.ref) not in changed]
        progress = f"{len(changed)} written ({short(changed)}), not yet: {short(remaining)}"
    return ComponentFailed(
        f"{objects.subject}: {error.message}; {progress}",
        subject=f"{target.ref} ({target.place})",
        field=error.field,
        value=error.value,
        remedy=error.remedy or "correct the object in the release or in the cluster, then retry",
    )


def _groups(targets: Sequence[PlacedObject]) -> list[tuple[int, list[PlacedObject]]]:
    found: dict[int, list[PlacedObject]] = {}
    for target in targets:
        found.setdefault(apply_class(target.document), []).append(target)
    return sorted(found.items(), key=lambda item: item[0])
