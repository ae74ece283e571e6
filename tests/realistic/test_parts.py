"""The parts of the realistic upgrade, without a control plane: balancer, load client, programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from controlplane.go_module import GoModule
from controlplane.programs import write_kubeconfig
from looking import until_enough
from realistic.balancer import Balancer
from realistic.load import LoadClient
from realistic.programs import NEWER_MODULE, OLDER_MODULE, PACKAGES

Answer = Callable[[int], web.Response]


def minor_and_patch(version: str) -> tuple[int, int]:
    _, minor, patch = version.removeprefix("v").split(".")
    return int(minor), int(patch)


def tools(module: GoModule) -> set[str]:
    text = (module.folder / "go.mod").read_text()
    return {line.strip() for line in text.partition("tool (")[2].partition(")")[0].splitlines()} - {""}


def test_every_program_is_a_tool_of_the_module() -> None:
    assert tools(OLDER_MODULE) == set(PACKAGES.values())


def test_kubernetes_goes_one_minor_up_and_etcd_some_patches() -> None:
    older, newer = (minor_and_patch(module.kubernetes_version) for module in (OLDER_MODULE, NEWER_MODULE))
    assert newer[0] == older[0] + 1
    etcd = "go.etcd.io/etcd/server/v3"
    older, newer = (minor_and_patch(module.version_of(etcd)) for module in (OLDER_MODULE, NEWER_MODULE))
    assert newer[0] == older[0] and newer[1] > older[1]


def test_etcd_and_its_tools_are_of_one_version() -> None:
    names = ("server", "etcdctl", "etcdutl", "client", "api")
    assert len({OLDER_MODULE.version_of(f"go.etcd.io/etcd/{name}/v3") for name in names}) == 1


@asynccontextmanager
async def echo(name: bytes) -> AsyncIterator[tuple[tuple[str, int], asyncio.Server]]:
    """A backend that says its name and then what it is told."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name)
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname(), server


async def greeting(address: tuple[str, int]) -> bytes:
    """What a new connection hears first, and that it passes on what is said; empty when it is closed at once."""
    reader, writer = await asyncio.open_connection(*address)
    heard = await reader.read(1)
    if heard:
        writer.write(b"!")
        assert await reader.read(1) == b"!"
    writer.close()
    return heard


@asynccontextmanager
async def balanced(*backends: tuple[str, int]) -> AsyncIterator[tuple[str, int]]:
    """The address of a balancer before them."""
    balancer = Balancer(backends)
    async with await asyncio.start_server(balancer.handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()


async def test_the_balancer_takes_backends_in_turn_and_passes_over_the_dead() -> None:
    async with echo(b"a") as (a, first), echo(b"b") as (b, _), balanced(a, b) as front:
        assert [await greeting(front) for _ in range(4)] == [b"a", b"b", b"a", b"b"]
        first.close()
        assert [await greeting(front) for _ in range(4)] == [b"b"] * 4


async def test_the_balancer_passes_over_what_is_not_ready_until_it_is() -> None:
    async with echo(b"a") as (a, _), echo(b"b") as (b, _):
        ready = {b}
        balancer = Balancer([a, b])

        async def is_ready(backend: tuple[str, int]) -> bool:
            return backend in ready

        async def greetings() -> set[bytes]:
            return {await greeting(front) for _ in range(4)}

        async with await asyncio.start_server(balancer.handle, "127.0.0.1", 0) as server:
            front = server.sockets[0].getsockname()
            watching = [asyncio.create_task(balancer.watch(backend, is_ready)) for backend in (a, b)]
            await until_enough(greetings, lambda heard: heard == {b"b"})
            ready.add(a)
            await until_enough(greetings, lambda heard: heard == {b"a", b"b"})
            for task in watching:
                task.cancel()


async def test_the_balancer_hangs_up_when_every_backend_is_dead() -> None:
    async with echo(b"a") as (a, server), balanced(a) as front:
        server.close()
        assert await greeting(front) == b""


class ScriptedStore:
    """One ConfigMap behind HTTP, whose answers to writes and reads a test can replace by number."""

    def __init__(self, write: dict[int, Answer] | None = None, read: dict[int, Answer] | None = None) -> None:
        self.write_answers, self.read_answers = write or {}, read or {}
        self.count, self.version, self.writes, self.reads = "0", 1, 0, 0
        self.unanswered: set[int] = set()
        self.over = asyncio.Event()
        self.ports: list[int] = []

    def document(self, count: str = "") -> web.Response:
        metadata = {"name": "x", "resourceVersion": str(self.version)}
        return web.json_response({"metadata": metadata, "data": {"count": count or self.count}})

    async def create(self, _: web.Request) -> web.Response:
        return self.document()

    async def get(self, _: web.Request) -> web.Response:
        self.reads += 1
        return self.read_answers[self.reads](self.reads) if self.reads in self.read_answers else self.document()

    async def patch(self, request: web.Request) -> web.Response:
        self.writes += 1
        self.ports.append(request.transport.get_extra_info("peername")[1] if request.transport else 0)
        if self.writes in self.unanswered:
            await self.over.wait()
        body = json.loads(await request.text())
        if body["metadata"]["resourceVersion"] != str(self.version):
            return web.Response(status=409)
        if self.writes in self.write_answers:
            return self.write_answers[self.writes](self.writes)
        self.take(body["data"]["count"])
        return self.document()

    def take(self, count: str) -> None:
        self.count, self.version = count, self.version + 1


@asynccontextmanager
async def written_to(store: ScriptedStore, folder: Path, patience: float = 30.0) -> AsyncIterator[LoadClient]:
    """A client that has read ten times, and written five, at least when the block ends."""
    app = web.Application()
    path = "/api/v1/namespaces/default/configmaps"
    one = path + "/{name}"
    app.add_routes([web.post(path, store.create), web.get(one, store.get), web.patch(one, store.patch)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    kubeconfig = write_kubeconfig(folder / "kubeconfig", f"http://{host}:{port}", b"", "x", "token")
    client = LoadClient(kubeconfig, patience)
    client.start()
    yield client

    async def seen() -> tuple[int, int]:
        return store.reads, int(store.count)

    await until_enough(seen, lambda far: far[0] >= 10 and far[1] >= 5)
    await asyncio.to_thread(client.stop)
    store.over.set()
    await runner.cleanup()


def refused(_: int) -> web.Response:
    return web.Response(status=503)


async def test_a_client_that_is_always_answered_has_lost_nothing(tmp_path: Path) -> None:
    async with written_to(ScriptedStore(), tmp_path) as client:
        pass
    figures = client.figures
    assert (figures.failed, figures.lost) == (0, [])
    assert figures.writes == figures.answered_writes >= 9
    assert figures.longest_gap > 0


async def test_refused_requests_are_counted_and_are_no_loss(tmp_path: Path) -> None:
    async with written_to(ScriptedStore(write={3: refused}, read={5: refused}), tmp_path) as client:
        pass
    assert client.figures.failures == {"write: HTTP 503": 1, "read: HTTP 503": 1}
    assert client.figures.lost == []


async def test_an_answered_write_that_is_not_read_again_is_lost(tmp_path: Path) -> None:
    store = ScriptedStore()
    store.read_answers[5] = lambda _: store.document(count="1")
    async with written_to(store, tmp_path) as client:
        pass
    assert len(client.figures.lost) == 1
    assert "read 1 after" in client.figures.lost[0]


async def test_a_refused_write_that_was_carried_out_all_the_same_is_no_loss(tmp_path: Path) -> None:
    store = ScriptedStore()

    def carried_out_all_the_same(number: int) -> web.Response:
        store.take(str(number))
        return web.Response(status=503)

    store.write_answers[3] = carried_out_all_the_same
    async with written_to(store, tmp_path) as client:
        pass
    assert client.figures.failures == {"write: HTTP 503": 1}
    assert client.figures.lost == []


async def test_a_write_that_is_never_answered_is_given_up_and_made_anew_over_another_connection(tmp_path: Path) -> None:
    store = ScriptedStore()
    store.unanswered.add(3)
    async with written_to(store, tmp_path, patience=1.0) as client:
        pass
    figures = client.figures
    assert figures.failures["write: TimeoutError"] >= 1
    assert len(figures.troubles) == figures.failed
    assert figures.longest_gap >= 1.0
    assert figures.lost == []
    assert store.ports[3] != store.ports[2]
