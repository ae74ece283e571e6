"""Lists as rarely as possible, misses nothing, and never storms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.errors import Forbidden, NotFound, Transient
from hopline.domain.resources import CONFIG_MAP
from hopline.kube import connection, watches
from hopline.kube.client import KubeClusterClient
from hopline.kube.connection import Request, Stream
from hopline.kube.credentials import KubeconfigFile
from hopline.ports import Change, ChangeType
from kube.fake_api_server import (
    Connect,
    End,
    Events,
    FakeApiServer,
    Reply,
    bookmark,
    config_map,
    config_maps,
    event,
    running,
    status,
    status_document,
)
from looking import PATIENCE

PATH = "/api/v1/namespaces/team/configmaps"
SYNCED, ADDED, MODIFIED, DELETED = ChangeType.SYNCED, ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED
GONE = status_document(410, "Expired", "too old resource version: 5 (9)")
FORBIDDEN = status(403, "Forbidden", 'User "x" cannot list resource "configmaps"')


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "FIRST_PAUSE_SECONDS", 0.005)
    monkeypatch.setattr(watches, "LONGEST_PAUSE_SECONDS", 0.05)


async def take(client: KubeClusterClient, count: int, **scope: str) -> list[tuple[ChangeType, list[str]]]:
    """The first reports of a watch, with the names that they are about."""
    found: list[tuple[ChangeType, list[str]]] = []
    async with asyncio.timeout(PATIENCE), aclosing(watching(client, **scope)) as changes:
        async for change in changes:
            found.append((change.type, [str(item["metadata"]["name"]) for item in change.documents]))
            if len(found) == count:
                return found
    raise AssertionError("the watch ended by itself")


async def watching(client: KubeClusterClient, **scope: str) -> AsyncIterator[Change]:
    async for change in client.watch(CONFIG_MAP, kube_namespace="team", **scope):
        yield change


def versions(server: FakeApiServer) -> list[str]:
    """From where each stream was asked for."""
    return [seen.query["resourceVersion"] for seen in server.requests("WATCH", PATH)]


def lists(server: FakeApiServer) -> int:
    return len(server.requests("GET", PATH))


def change(kind: str, name: str, version: str) -> dict[str, Any]:
    return event(kind, config_map(name, version))


async def test_lists_once_and_follows_from_there(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", PATH, config_maps("5", "b", "a"))
    server.answer(
        "WATCH", PATH, Events([change("ADDED", "c", "6"), change("MODIFIED", "c", "7"), change("DELETED", "c", "8")])
    )
    reports = await take(client, 4)
    assert reports == [(SYNCED, ["a", "b"]), (ADDED, ["c"]), (MODIFIED, ["c"]), (DELETED, ["c"])]
    query = server.requests("WATCH", PATH)[0].query
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "240",
        "resourceVersion": "5",
    }


async def test_items_of_lists_get_their_type(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", PATH, config_maps("5", "a"))
    async with aclosing(watching(client)) as changes:
        first = await anext(changes)
    assert (first.documents[0]["apiVersion"], first.documents[0]["kind"]) == ("v1", "ConfigMap")


async def test_scope_becomes_selectors(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, Events([change("ADDED", "one", "6")]))
    await take(client, 2, name="one", labels="tier in (a,b),!x")
    for seen in server.seen:
        assert seen.query["fieldSelector"] == "metadata.name=one"
        assert seen.query["labelSelector"] == "tier in (a,b),!x"


async def test_long_lists_come_in_pages_of_one_version(server: FakeApiServer, client: KubeClusterClient) -> None:
    pages = [config_maps("5", "a", more="t1"), config_maps("5", "b", more="t2"), config_maps("5", "c")]
    server.answer("GET", PATH, *pages)
    assert await take(client, 1) == [(SYNCED, ["a", "b", "c"])]
    assert [seen.query.get("continue") for seen in server.requests("GET", PATH)] == [None, "t1", "t2"]


async def test_a_list_that_takes_too_long_starts_again(server: FakeApiServer, client: KubeClusterClient) -> None:
    expired = Reply(GONE, 410)
    server.answer("GET", PATH, config_maps("5", "a", more="t1"), expired, config_maps("9", "a", "b"))
    assert await take(client, 1) == [(SYNCED, ["a", "b"])]


@pytest.mark.parametrize("end", [End.CLEAN, End.BROKEN])
async def test_a_stream_that_ends_is_taken_up_without_a_list(
    server: FakeApiServer, client: KubeClusterClient, end: End
) -> None:
    server.answer("GET", PATH, config_maps("5"))
    server.answer(
        "WATCH",
        PATH,
        Events([change("ADDED", "a", "6")], end),
        Events([bookmark("40")], end),
        Events([], end),
        Events([change("ADDED", "b", "41")]),
    )
    assert await take(client, 3) == [(SYNCED, []), (ADDED, ["a"]), (ADDED, ["b"])]
    assert versions(server) == ["5", "6", "40", "40"]
    assert lists(server) == 1


async def test_a_silent_stream_is_taken_up_without_a_list(
    server: FakeApiServer, client: KubeClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STREAM_SILENCE_SECONDS", 0.1)
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, Events(), Events([change("ADDED", "a", "6")]))
    assert await take(client, 2) == [(SYNCED, []), (ADDED, ["a"])]
    assert versions(server) == ["5", "5"]
    assert lists(server) == 1
    assert client.connection.is_settling is False


@pytest.mark.parametrize(
    "gone",
    [Reply(GONE, 410), Events([event("ERROR", GONE)]), Events([event("ERROR", GONE)], End.CLEAN)],
    ids=["answer", "event", "event and end"],
)
async def test_after_410_the_list_is_read_again(
    server: FakeApiServer, client: KubeClusterClient, gone: Reply | Events
) -> None:
    server.answer("GET", PATH, config_maps("5", "a"), config_maps("9", "b"))
    server.answer("WATCH", PATH, gone, Events([change("ADDED", "c", "10")]))
    assert await take(client, 3) == [(SYNCED, ["a"]), (SYNCED, ["b"]), (ADDED, ["c"])]
    assert versions(server) == ["5", "9"]


async def test_a_second_410_is_survived_as_well(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, Reply(GONE, 410), Reply(GONE, 410), Reply(GONE, 410), Events([]))
    assert await take(client, 4) == [(SYNCED, [])] * 4


async def test_another_error_event_is_a_gap(server: FakeApiServer, client: KubeClusterClient) -> None:
    failed = status_document(500, "InternalError", "etcdserver: mvcc: required revision has been compacted")
    server.answer("GET", PATH, config_maps("5"), config_maps("9", "a"))
    server.answer("WATCH", PATH, Events([event("ERROR", failed)]), Events([]))
    assert await take(client, 2) == [(SYNCED, []), (SYNCED, ["a"])]


async def test_an_api_server_that_was_away_is_synced_with(server: FakeApiServer, client: KubeClusterClient) -> None:
    starting = status(503, "ServiceUnavailable", "apiserver not ready")
    server.answer("GET", PATH, config_maps("5"), starting, starting, config_maps("9", "a"))
    server.answer("WATCH", PATH, Events([], End.BROKEN), starting, Events([]))
    assert await take(client, 2) == [(SYNCED, []), (SYNCED, ["a"])]


async def test_a_server_that_asks_for_patience_keeps_the_place(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    busy = status(429, "TooManyRequests", "too many requests", retryAfterSeconds=0.01)
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, busy, busy, Events([change("ADDED", "a", "6")]))
    assert await take(client, 2) == [(SYNCED, []), (ADDED, ["a"])]
    assert lists(server) == 1


async def test_an_api_server_that_is_away_at_the_start_is_waited_for(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    server.answer("GET", PATH, status(503, "ServiceUnavailable", "starting"), Reply("<html>", 502), config_maps("5"))
    assert await take(client, 1) == [(SYNCED, [])]


async def test_lines_of_any_length_and_cut_ones(server: FakeApiServer, client: KubeClusterClient) -> None:
    long = event("ADDED", config_map("long", "6", text="x" * 6_000_000))
    server.answer("GET", PATH, config_maps("5"))
    server.answer(
        "WATCH",
        PATH,
        Events([long], End.CLEAN),
        Events(raw=b'{"type": "ADDED", "object": {"metadata"', end=End.CLEAN),
        Events(raw=b"not json\n", end=End.CLEAN),
        Events([change("ADDED", "b", "7")]),
    )
    assert await take(client, 3) == [(SYNCED, []), (ADDED, ["long"]), (ADDED, ["b"])]
    assert versions(server) == ["5", "6", "6", "6"]


@given(st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=6), st.integers(1, 7))
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], size: int) -> None:
    sent = b"".join(line + b"\n" for line in lines) + b"cut off"
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    assert asyncio.run(lines_of(pieces)) == lines


async def lines_of(pieces: list[bytes]) -> list[bytes]:
    async def iter_any() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    response: Any = SimpleNamespace(content=SimpleNamespace(iter_any=iter_any))
    return [line async for line in Stream(response, lambda problem: Transient(str(problem))).lines()]


async def test_a_watch_goes_over_to_another_api_server(
    server: FakeApiServer, connected: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    async with running() as old:
        file.write_text(json.dumps(old.kubeconfig()))
        client = await connected(KubeconfigFile(file))
        old.answer("GET", PATH, config_maps("5", "old"))
        old.answer("WATCH", PATH, Events())
        old.answer("GET", "/api/v1/namespaces/kube-system", status(401, "Unauthorized", "Unauthorized"))
        server.answer("GET", PATH, config_maps("1", "new"))
        server.answer("WATCH", PATH, status(410, "Expired", "too old"), Events())
        reports = asyncio.create_task(take(client, 2))
        await old.wait_for("WATCH", PATH, 1)
        file.write_text(json.dumps(server.kubeconfig()))
        with pytest.raises(Transient):
            await client.identity()
        assert await reports == [(SYNCED, ["old"]), (SYNCED, ["new"])]
        await old.stream_closed.wait()


async def test_closing_the_client_does_not_leave_a_watch_waiting(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, Events())
    stream = await client.connection.stream(Request("GET", PATH, "ConfigMap team/*", {"watch": "true"}))
    assert isinstance(stream, Stream)
    reading = asyncio.create_task(anext(stream.lines()))
    await asyncio.sleep(0)
    await client.aclose()
    with pytest.raises(Transient):
        async with asyncio.timeout(PATIENCE):
            await reading


async def test_forbidden_ends_the_watch(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", PATH, FORBIDDEN)
    with pytest.raises(Forbidden):
        await take(client, 1)
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, FORBIDDEN)
    with pytest.raises(Forbidden):
        await take(client, 2)


async def test_forbidden_just_after_a_restart_does_not(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", PATH, config_maps("5"), FORBIDDEN, config_maps("9", "a"))
    server.answer("WATCH", PATH, Events([], End.BROKEN), FORBIDDEN, Events([]))
    assert await take(client, 2) == [(SYNCED, []), (SYNCED, ["a"])]


async def test_a_kind_that_is_not_served_ends_the_watch(
    server: FakeApiServer, client: KubeClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound):
        await take(client, 1)
    monkeypatch.setattr(watches, "RECREATION_SECONDS", 0.1)
    server.answer("GET", PATH, config_maps("5"), Reply("404 page not found", 404))
    server.answer("WATCH", PATH, Events([], End.CLEAN), Reply("404 page not found", 404))
    with pytest.raises(NotFound):
        await take(client, 2)


async def test_a_definition_that_is_made_again_is_a_gap(server: FakeApiServer, client: KubeClusterClient) -> None:
    unserved = Reply("404 page not found", 404)
    server.answer("GET", PATH, config_maps("5", "a"), unserved, unserved, config_maps("9", "b"))
    server.answer("WATCH", PATH, Events([change("DELETED", "a", "7")], End.CLEAN), unserved, Events([]))
    assert await take(client, 3) == [(SYNCED, ["a"]), (DELETED, ["a"]), (SYNCED, ["b"])]
    assert lists(server) == 4


async def test_after_401_the_watch_goes_on(server: FakeApiServer, client: KubeClusterClient) -> None:
    unauthorized = status(401, "Unauthorized", "Unauthorized")
    server.answer("GET", PATH, unauthorized, config_maps("5"))
    server.answer("WATCH", PATH, unauthorized, Events([change("ADDED", "a", "6")]))
    reports = await take(client, 3)
    assert reports == [(SYNCED, []), (SYNCED, []), (ADDED, ["a"])]


async def test_leaving_a_watch_closes_its_connection(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, Events([change("ADDED", "a", "6")]))
    await take(client, 2)
    async with asyncio.timeout(PATIENCE):
        await server.stream_closed.wait()


async def test_cancelling_ends_a_watch_at_once(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, Events([]))
    task = asyncio.create_task(take(client, 2))
    await server.wait_for("WATCH", PATH, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "answer",
    [
        Events([], End.CLEAN),
        Events([bookmark("6")], End.CLEAN),
        Events([], End.BROKEN),
        Reply(GONE, 410),
        Reply("", 500),
    ],
    ids=["ends", "ends after a bookmark", "breaks", "410", "500"],
)
async def test_whatever_goes_wrong_there_is_no_storm(
    server: FakeApiServer, client: KubeClusterClient, answer: Events | Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pauses of at least 50, 100, 200 and 400 ms leave room for five attempts in 0.7 s, of two requests at most."""
    monkeypatch.setattr(watches, "FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(watches, "LONGEST_PAUSE_SECONDS", 5.0)
    server.answer("GET", PATH, config_maps("5"))
    server.answer("WATCH", PATH, answer)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.7):
            await take(client, 1000)
    assert 2 <= len(server.seen) <= 10
