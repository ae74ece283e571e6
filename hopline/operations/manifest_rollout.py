"""Waiting for a component: one look at its rollout, or a watch that returns on news."""

from __future__ import annotations

import asyncio

from hopline.domain.errors import Forbidden, NotFound
from hopline.domain.resources import EVENT, Document, ObjectRef
from hopline.operations.component_objects import ComponentObjects, side_by_side
from hopline.operations.rollout_judgement import RolloutObservation, Seen, Source, judge
from hopline.ports import Change, ChangeType, ClusterClient

__all__ = ["RolloutObservation", "observe_rollout", "wait_for_change"]

QUIET_SECONDS = 10.0
"""A change in mere counts (3 of 8 pods are new) is told this long after the wait began, not sooner."""


async def observe_rollout(client: ClusterClient, objects: ComponentObjects) -> RolloutObservation:
    """One look. Raises Transient when the cluster is out of reach."""
    seen: Seen = {}
    while True:
        judgement = judge(objects, seen)
        missing = [source for source in judgement.needs if source not in seen]
        if not missing:
            return judgement.observation
        found = await side_by_side(lambda source: read_source(client, source), missing)
        seen.update(zip(missing, found, strict=True))


async def wait_for_change(
    client: ClusterClient,
    objects: ComponentObjects,
    last: RolloutObservation,
    timeout_seconds: float,
    *,
    quiet_seconds: float = QUIET_SECONDS,
) -> RolloutObservation:
    """Watch until there is news: ready, failed, another trouble, or after `quiet_seconds` any difference to `last`.

    Returns what is seen when the time is over. Costs one list and one watch per source, and nothing while all is still.
    """
    watching = _Watching(client, objects)
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout_seconds
    quiet_until = min(clock() + quiet_seconds, deadline)
    try:
        while True:
            observation = watching.current()
            if observation is not None and _is_news(observation, last, quiet=clock() < quiet_until):
                return observation
            if clock() >= deadline:
                return observation or _UNSEEN
            is_waiting = observation is not None and observation.waiting_for != last.waiting_for
            await watching.changed(quiet_until if is_waiting else deadline)
    finally:
        await watching.aclose()


_UNSEEN = RolloutObservation(
    ready=False, waiting_for="the API server of the cluster, which does not answer", urgent=True
)


def _is_news(observation: RolloutObservation, last: RolloutObservation, *, quiet: bool) -> bool:
    if observation.ready or observation.failed:
        return True
    return observation.waiting_for != last.waiting_for and (observation.urgent or not quiet)


class _Watching:
    """Keeps `seen` current by watches, which are opened as judging asks for them."""

    def __init__(self, client: ClusterClient, objects: ComponentObjects) -> None:
        self._client = client
        self._objects = objects
        self._seen: Seen = {}
        self._tasks: dict[Source, asyncio.Task[None]] = {}
        self._news = asyncio.Event()

    def current(self) -> RolloutObservation | None:
        """What the watches show by now; None while one that is needed has not reported yet."""
        self._news.clear()
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        judgement = judge(self._objects, self._seen)
        for source in judgement.needs:
            if source not in self._tasks:
                self._tasks[source] = asyncio.create_task(self._follow(source))
        return judgement.observation if all(source in self._seen for source in judgement.needs) else None

    async def changed(self, until: float) -> None:
        """Return on the next report of any watch, or at `until` (time of the event loop)."""
        try:
            async with asyncio.timeout_at(until):
                await self._news.wait()
        except TimeoutError:
            return

    async def _follow(self, source: Source) -> None:
        try:
            watch = self._client.watch(
                source.kind,
                kube_namespace=source.kube_namespace,
                labels=source.labels,
                name=source.name,
                fields=source.fields,
            )
            async for change in watch:
                _note(self._seen.setdefault(source, {}), change)
                self._news.set()
        except Forbidden:
            if source.kind != EVENT:
                raise
            # What a controller says of itself is a help, and no account has to be allowed to read it.
            self._seen.setdefault(source, {})
        finally:
            self._news.set()

    async def aclose(self) -> None:
        """Close every watch."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def _note(table: dict[str, Document], change: Change) -> None:
    if change.type is ChangeType.SYNCED:
        table.clear()
    for document in change.documents:
        name = str(document["metadata"]["name"])
        if change.type is ChangeType.DELETED:
            table.pop(name, None)
        else:
            table[name] = document


async def read_source(client: ClusterClient, source: Source) -> dict[str, Document]:
    """One look at a source: name → object."""
    if not source.name:
        where = {"kube_namespace": source.kube_namespace, "labels": source.labels, "fields": source.fields}
        try:
            listing = await client.list(source.kind, **where)
        except Forbidden:
            if source.kind != EVENT:
                raise
            return {}
        return {str(document["metadata"]["name"]): document for document in listing.items}
    ref = ObjectRef(kind=source.kind, name=source.name, kube_namespace=source.kube_namespace)
    try:
        return {source.name: await client.get(ref)}
    except NotFound:
        return {}
