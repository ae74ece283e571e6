"""Clusters, simulated or real, with hooks around every write: for what a scripted fault cannot say."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from hopline.domain.resources import Document, Kind, ObjectRef, describe
from hopline.domain.wire import ClusterKey
from hopline.ports import Change, ClusterClient, Clusters, EtcdProbe, Listing, NodeAgentInstaller
from looking import PATIENCE


@dataclass(frozen=True)
class Call:
    """One write (or, for `get`, `list`, a read): `subject` as `Kind namespace/name`; of a list, `Kind namespace`."""

    verb: str
    subject: str
    body: Document = field(default_factory=dict)
    subresource: str = ""
    server: str = "management"

    def writes(self, *path: str) -> bool:
        """Whether the body has a field."""
        found: Any = self.body
        for step in path:
            if not isinstance(found, dict) or step not in found:
                return False
            found = found[step]
        return True


Hook = Callable[[Call], Awaitable[None] | None]


class HookedClusters:
    """`Clusters` over others; `before` may refuse or delay a call, `after` may make it fail after its effect.

    `seen` may delay what a watch has to tell, before anybody hears of it; such calls are not kept.
    """

    def __init__(self, clusters: Clusters, *, before: Hook | None = None, after: Hook | None = None) -> None:
        self._clusters = clusters
        self.before = before
        self.after = after
        self.seen: Hook | None = None
        self.calls: list[Call] = []
        self._management = HookedClient(clusters.management, self, "management")

    @property
    def management(self) -> HookedClient:
        return self._management

    @property
    def agents(self) -> NodeAgentInstaller | None:
        return self._clusters.agents

    @property
    def etcd(self) -> EtcdProbe:
        return self._clusters.etcd

    async def target(self, cluster: ClusterKey) -> HookedClient:
        return HookedClient(await self._clusters.target(cluster), self, str(cluster))

    def look_again(self, cluster: ClusterKey) -> None:
        self._clusters.look_again(cluster)

    async def aclose(self) -> None:
        await self._clusters.aclose()

    async def around(self, call: Call, act: Callable[[], Awaitable[Any]]) -> Any:
        """Hooks around one call."""
        self.calls.append(call)
        await _run(self.before, call)
        answer = await act()
        await _run(self.after, call)
        return answer

    async def tell(self, document: Document, server: str) -> None:
        """A watch has something to tell."""
        await _run(self.seen, Call("see", describe(document), document, server=server))


async def _run(hook: Hook | None, call: Call) -> None:
    if hook is None:
        return
    waiting = hook(call)
    if inspect.isawaitable(waiting):
        await waiting


class HookedClient:
    """`ClusterClient` that asks the hooks."""

    def __init__(self, client: ClusterClient, hooks: HookedClusters, server: str) -> None:
        self._client = client
        self._hooks = hooks
        self._server = server

    async def identity(self) -> str:
        return await self._client.identity()

    async def resolve(self, api_version: str, kind: str) -> Kind:
        return await self._client.resolve(api_version, kind)

    async def get(self, ref: ObjectRef) -> Document:
        call = Call("get", str(ref), server=self._server)
        return await self._hooks.around(call, lambda: self._client.get(ref))

    async def list(self, kind: Kind, *, kube_namespace: str = "", labels: str = "", fields: str = "") -> Listing:
        call = Call("list", f"{kind.kind} {kube_namespace}".rstrip(), server=self._server)
        return await self._hooks.around(
            call, lambda: self._client.list(kind, kube_namespace=kube_namespace, labels=labels, fields=fields)
        )

    async def evict(self, pod: ObjectRef, *, uid: str = "", grace_seconds: int = -1) -> None:
        call = Call("evict", str(pod), server=self._server)
        await self._hooks.around(call, lambda: self._client.evict(pod, uid=uid, grace_seconds=grace_seconds))

    async def create(self, document: Document, *, kind: Kind, dry_run: bool = False) -> Document:
        if dry_run:
            return await self._client.create(document, kind=kind, dry_run=True)
        call = Call("create", describe(document), document, server=self._server)
        return await self._hooks.around(call, lambda: self._client.create(document, kind=kind))

    async def patch(self, ref: ObjectRef, body: Document, *, subresource: str = "", dry_run: bool = False) -> Document:
        if dry_run:
            return await self._client.patch(ref, body, subresource=subresource, dry_run=True)
        call = Call("patch", str(ref), body, subresource, self._server)
        return await self._hooks.around(call, lambda: self._client.patch(ref, body, subresource=subresource))

    async def apply(
        self, document: Document, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Document:
        async def act() -> Document:
            return await self._client.apply(
                document, kind=kind, field_manager=field_manager, force=force, dry_run=dry_run
            )

        if dry_run:
            return await act()
        return await self._hooks.around(Call("apply", describe(document), document, server=self._server), act)

    async def delete(self, ref: ObjectRef, *, uid: str = "") -> None:
        call = Call("delete", str(ref), server=self._server)
        await self._hooks.around(call, lambda: self._client.delete(ref, uid=uid))

    def watch(
        self, kind: Kind, *, kube_namespace: str = "", labels: str = "", name: str = "", fields: str = ""
    ) -> AsyncIterator[Change]:
        found = self._client.watch(kind, kube_namespace=kube_namespace, labels=labels, name=name, fields=fields)
        return found if self._hooks.seen is None else self._slowly(found)

    async def _slowly(self, changes: AsyncIterator[Change]) -> AsyncGenerator[Change, None]:
        async with aclosing(cast("AsyncGenerator[Change, None]", changes)) as told:
            async for change in told:
                for document in change.documents:
                    await self._hooks.tell(document, self._server)
                yield change


class Gate:
    """A hook that lets everything through but the calls that `fits`; they wait until it is opened."""

    def __init__(self, fits: Callable[[Call], bool]) -> None:
        self._fits = fits
        self._reached = asyncio.Event()
        self._opened = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        """The hook."""
        if self._fits(call):
            self._reached.set()
            await self._opened.wait()

    async def reached(self, seconds: float = PATIENCE) -> None:
        """Return when a call waits here."""
        async with asyncio.timeout(seconds):
            await self._reached.wait()

    @property
    def is_reached(self) -> bool:
        """Whether a call waits here, or has."""
        return self._reached.is_set()

    @property
    def is_open(self) -> bool:
        """Whether everything passes."""
        return self._opened.is_set()

    def open(self) -> None:
        """Let all calls through, now and later."""
        self._opened.set()


def applying(component: str) -> Callable[[Call], bool]:
    """The apply of a small component's object."""
    return lambda call: call.verb == "apply" and call.subject.endswith(f"/{component}")


def in_turn(*hooks: Hook) -> Hook:
    """One hook after the other."""

    async def hook(call: Call) -> None:
        for one in hooks:
            await _run(one, call)

    return hook
