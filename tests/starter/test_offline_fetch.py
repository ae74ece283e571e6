"""`hopline offline fetch`: what a web server and its index do in the wild, and what is on disk afterwards."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from registry.certificates import Authority
from starter import version_configs
from starter.__main__ import run
from starter.exit_codes import ExitCode

INDEX = """- openFuyaoVersion: v26.06
  filePath: ./VersionConfig-v26.06.yaml
- openFuyaoVersion: v26.06-rc.2
  filePath: ./VersionConfig-v26.06-rc.2.yaml
"""
CONFIG = "openFuyaoVersion: v26.06\nkubernetesVersion: v1.34.5-of.1\nrepos: []\n"
NAME = "VersionConfig-v26.06.yaml"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class Publisher:
    """A web server that says what it is told to; `before` sees every request first."""

    files: dict[str, str] = field(default_factory=lambda: {"index.yaml": INDEX, NAME: CONFIG})
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, range and credentials of each request."""
    before: Handler | None = None
    url: str = ""

    @property
    def index(self) -> str:
        return f"{self.url}/version-config/index.yaml"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        self.asked.append((name, request.headers.get("Range", ""), request.headers.get("Authorization", "")))
        if self.before is not None and (told := await self.before(request)) is not None:
            return told
        if name not in self.files:
            return web.Response(status=404)
        body = self.files[name].encode()
        tag = f'"{len(body)}-{hash(body)}"'
        wanted = request.headers.get("Range", "")
        if wanted and request.headers.get("If-Range", tag) == tag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            headers = {"ETag": tag, "Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
            return web.Response(status=206, body=body[start:], headers=headers)
        return web.Response(body=body, headers={"ETag": tag})


@asynccontextmanager
async def serving(publisher: Publisher, context: ssl.SSLContext | None = None) -> AsyncIterator[Publisher]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", publisher.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    publisher.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield publisher
    finally:
        await runner.cleanup()


@pytest.fixture
async def publisher(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Publisher]:
    monkeypatch.setattr(version_configs, "LONGEST_WAIT_SECONDS", 0.01)
    async with serving(Publisher()) as running:
        yield running


async def fetch(index: str, folder: Path, *options: str, version: str = "v26.06") -> int:
    arguments = ["offline", "fetch", "--index", index, "--version", version, "--to", str(folder), *options]
    return await asyncio.to_thread(run, arguments)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


async def test_index_and_config_lie_where_wget_puts_them(
    publisher: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new"
    assert await fetch(publisher.index, folder, "-o", "json") == ExitCode.DONE
    assert names(folder) == [NAME, "index.yaml"]
    assert (folder / NAME).read_text() == CONFIG
    assert (folder / "index.yaml").read_text() == INDEX
    told = json.loads(capsys.readouterr().out)
    assert (told["version"], told["file"], told["changed"]) == ("v26.06", str(folder / NAME), True)
    assert told["source"] == f"{publisher.url}/version-config/{NAME}"
    assert await fetch(publisher.index, folder) == ExitCode.DONE
    assert "already there" in capsys.readouterr().out


async def test_files_from_wget_need_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "index.yaml").write_text(INDEX)
    (tmp_path / NAME).write_text(CONFIG.replace("\n", "\r\n"))
    assert await fetch(str(tmp_path / "index.yaml"), tmp_path, "-o", "json") == ExitCode.DONE
    assert not json.loads(capsys.readouterr().out)["changed"]
    assert await fetch(str(tmp_path / "index.yaml"), tmp_path / "other") == ExitCode.DONE
    assert names(tmp_path / "other") == [NAME, "index.yaml"]


async def test_a_file_below_the_index_is_found_by_name_too(tmp_path: Path) -> None:
    (tmp_path / "index.yaml").write_text(INDEX.replace("./Version", "./more/Version"))
    (tmp_path / NAME).write_text(CONFIG)
    assert await fetch(str(tmp_path / "index.yaml"), tmp_path) == ExitCode.DONE


async def test_an_index_alone_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "index.yaml").write_text(INDEX)
    assert await fetch(str(tmp_path / "index.yaml"), tmp_path) == ExitCode.USAGE
    assert NAME in capsys.readouterr().err


async def test_a_version_that_is_not_there_names_those_that_are(
    publisher: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await fetch(publisher.index, tmp_path, version="v27.01") == ExitCode.REFUSED
    told = capsys.readouterr().err
    assert "v27.01" in told
    assert "v26.06, v26.06-rc.2" in told
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("index.yaml", "<!DOCTYPE html><html>log in</html>", "web page"),
        (NAME, "<html>gone</html>", "web page"),
        ("index.yaml", "openFuyaoVersion: v26.06\n", "no list of versions"),
        ("index.yaml", "- openFuyaoVersion: v26.06\n", "no filePath"),
        ("index.yaml", "- openFuyaoVersion: v26.06\n  filePath: ../../etc/VersionConfig.yaml\n", "leaves its folder"),
        ("index.yaml", "- openFuyaoVersion: v26.06\n  filePath: https://elsewhere/a.yaml\n", "leaves its folder"),
        ("index.yaml", "- openFuyaoVersion: v26.06\n  filePath: /etc/passwd\n", "leaves its folder"),
        ("index.yaml", f"{INDEX}- openFuyaoVersion: v26.06\n  filePath: other.yaml\n", "two files for v26.06"),
        ("index.yaml", "- [", "does not parse"),
        (NAME, CONFIG.replace("v26.06", "v26.03", 1), "not for v26.06"),
        (NAME, "kubernetesVersion: v1.34.5\n", "not for v26.06"),
        (NAME, "- a\n", "not an object"),
        (NAME, "repos: [\n", "does not parse"),
    ],
)
@pytest.mark.parametrize("by", ["server", "file"])
async def test_something_else_than_what_was_asked_for(
    publisher: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, part: str, by: str
) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    (folder / NAME).write_text("what was here before")
    publisher.files[name] = text
    index = publisher.index
    if by == "file":
        for file, content in publisher.files.items():
            (tmp_path / file).write_text(content)
        index = str(tmp_path / "index.yaml")
    assert await fetch(index, folder) == ExitCode.REFUSED
    assert part in capsys.readouterr().err
    assert (folder / NAME).read_text() == "what was here before"
    assert set(names(folder)) <= {NAME, "index.yaml"}


async def test_faults_that_may_pass_are_tried_again(
    publisher: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [500, 429, 503]

    async def before(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=faults.pop(), headers={"Retry-After": "0"}) if faults else None

    publisher.before = before
    assert await fetch(publisher.index, tmp_path) == ExitCode.DONE
    assert "trying again" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "part"), [(404, "does not have"), (401, "let us in"), (403, "let us in")])
async def test_faults_that_do_not_pass_are_told_at_once(
    publisher: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, part: str
) -> None:
    async def before(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=status)

    publisher.before = before
    assert await fetch(publisher.index, tmp_path) == ExitCode.FAILED
    assert part in capsys.readouterr().err
    assert len(publisher.asked) == 1
    assert names(tmp_path) == []


async def test_a_server_that_is_not_there(publisher: Publisher, tmp_path: Path, capsys: Any) -> None:
    assert await fetch("http://127.0.0.1:9/index.yaml", tmp_path) == ExitCode.FAILED
    assert "cannot be reached" in capsys.readouterr().err


class Breaking:
    """Breaks the transfer of a file off after a few bytes, once; `other`: of other content than is there later."""

    def __init__(self, publisher: Publisher, name: str, *, other: str = "") -> None:
        self._publisher, self._name, self._other, self._done = publisher, name, other, False

    async def __call__(self, request: web.Request) -> web.StreamResponse | None:
        if self._done or not request.path.endswith(self._name):
            return None
        self._done = True
        body = (self._other or self._publisher.files[self._name]).encode()
        tag = f'"{len(body)}-{hash(body)}"'
        answer = web.StreamResponse(headers={"ETag": tag, "Content-Length": str(len(body))})
        await answer.prepare(request)
        await answer.write(body[:20])
        assert request.transport is not None
        request.transport.close()
        return answer


async def test_a_transfer_that_broke_off_goes_on_where_it_stopped(publisher: Publisher, tmp_path: Path) -> None:
    publisher.before = Breaking(publisher, NAME)
    assert await fetch(publisher.index, tmp_path) == ExitCode.DONE
    assert [part for name, part, _ in publisher.asked if name == NAME] == ["", "bytes=20-"]
    assert (tmp_path / NAME).read_text() == CONFIG
    assert names(tmp_path) == [NAME, "index.yaml"]


async def test_content_that_changed_meanwhile_starts_anew(publisher: Publisher, tmp_path: Path) -> None:
    publisher.before = Breaking(publisher, NAME, other="# of yesterday, much longer than this\n" + CONFIG)
    assert await fetch(publisher.index, tmp_path) == ExitCode.DONE
    assert (tmp_path / NAME).read_text() == CONFIG


async def test_a_killed_fetch_is_gone_on_with(publisher: Publisher, tmp_path: Path) -> None:
    url, body = f"{publisher.url}/version-config/{NAME}", CONFIG.encode()
    (tmp_path / f"{NAME}.part").write_bytes(body[:30])
    note = {"url": url, "mark": f'"{len(body)}-{hash(body)}"'}
    (tmp_path / f"{NAME}.part.json").write_text(json.dumps(note))
    assert await fetch(publisher.index, tmp_path) == ExitCode.DONE
    assert publisher.asked[-1][1] == "bytes=30-"
    assert (tmp_path / NAME).read_text() == CONFIG


async def test_a_part_that_ends_too_soon_is_gone_on_with(publisher: Publisher, tmp_path: Path) -> None:
    breaking, body = Breaking(publisher, NAME), CONFIG.encode()

    async def before(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Range") != "bytes=20-":
            return await breaking(request)
        headers = {"Content-Range": f"bytes 20-29/{len(body)}"}
        return web.Response(status=206, body=body[20:30], headers=headers)

    publisher.before = before
    assert await fetch(publisher.index, tmp_path) == ExitCode.DONE
    assert [part for name, part, _ in publisher.asked if name == NAME] == ["", "bytes=20-", "bytes=30-"]
    assert (tmp_path / NAME).read_text() == CONFIG


@pytest.mark.parametrize(
    "note",
    [
        None,
        "no json",
        "[]",
        '{"url": "http://elsewhere/x", "mark": "TAG"}',
        '{"url": "URL", "mark": ""}',
        '{"url": "URL", "mark": 1}',
    ],
)
async def test_a_part_of_unknown_origin_is_not_used(publisher: Publisher, tmp_path: Path, note: str | None) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(b"something")
    if note is not None:
        body, url = CONFIG.encode(), f"{publisher.url}/version-config/{NAME}"
        tag = f'\\"{len(body)}-{hash(body)}\\"'
        (tmp_path / f"{NAME}.part.json").write_text(note.replace("URL", url).replace("TAG", tag))
    assert await fetch(publisher.index, tmp_path) == ExitCode.DONE
    assert publisher.asked[-1][1] == ""
    assert (tmp_path / NAME).read_text() == CONFIG


async def test_tls_and_credentials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority()
    place = authority.write(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place["certificate"], place["key"])
    (tmp_path / "ca.pem").write_text(authority.pem)
    async with serving(Publisher()) as other, serving(Publisher(), context) as publisher:
        login = b64encode(b"u:secret").decode()
        auths = {"auths": {publisher.url.removeprefix("https://"): {"auth": login}}}
        (tmp_path / "auth.json").write_text(json.dumps(auths))
        given = ["--ca", str(tmp_path / "ca.pem"), "--auth-file", str(tmp_path / "auth.json")]
        assert await fetch(publisher.index, tmp_path / "a", *given) == ExitCode.DONE
        assert {sent for *_, sent in publisher.asked} == {f"Basic {login}"}
        assert await fetch(publisher.index, tmp_path / "b", "--insecure") == ExitCode.DONE
        assert "secret" not in "".join(capsys.readouterr())

        async def before(request: web.Request) -> web.StreamResponse | None:
            return web.Response(status=302, headers={"Location": other.index})

        publisher.before = before
        assert await fetch(publisher.index, tmp_path / "c", *given) == ExitCode.FAILED
        assert "without TLS" in capsys.readouterr().err
        assert other.asked == []


async def test_credentials_do_not_follow_a_redirect(publisher: Publisher, tmp_path: Path) -> None:
    async with serving(Publisher()) as other:
        auths = {"auths": {publisher.url.removeprefix("http://"): {"auth": b64encode(b"u:secret").decode()}}}
        (tmp_path / "auth.json").write_text(json.dumps(auths))

        async def before(request: web.Request) -> web.StreamResponse | None:
            return web.Response(status=302, headers={"Location": f"{other.url}{request.path}"})

        publisher.before = before
        assert await fetch(publisher.index, tmp_path, "--auth-file", str(tmp_path / "auth.json")) == ExitCode.DONE
        assert all(sent for *_, sent in publisher.asked)
        assert [sent for *_, sent in other.asked] == ["", ""]


async def test_the_proxy_of_the_environment(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", publisher.url)
    assert await fetch("http://published.example/version-config/index.yaml", tmp_path) == ExitCode.DONE
    assert [name for name, *_ in publisher.asked] == ["index.yaml", NAME]
    monkeypatch.setenv("NO_PROXY", "published.example")
    publisher.asked.clear()
    assert await fetch("http://published.example/version-config/index.yaml", tmp_path) == ExitCode.FAILED
    assert publisher.asked == []


async def test_a_certificate_of_nobody_we_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_configs, "LONGEST_WAIT_SECONDS", 0.01)
    place = Authority().write(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place["certificate"], place["key"])
    async with serving(Publisher(), context) as publisher:
        assert await fetch(publisher.index, tmp_path / "to") == ExitCode.FAILED
        assert "--ca" in capsys.readouterr().err


async def test_a_login_in_the_address_is_refused_and_not_repeated(
    publisher: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = publisher.index.replace("://", "://user:hush-41c7@")
    assert await fetch(index, tmp_path, "-o", "json") == ExitCode.USAGE
    told = capsys.readouterr()
    assert "--auth-file" in told.err
    assert "hush" not in told.out + told.err
    assert publisher.asked == []


async def test_usage(tmp_path: Path) -> None:
    assert await fetch(str(tmp_path / "nothing.yaml"), tmp_path) == ExitCode.USAGE
    assert await fetch("ftp://somewhere/index.yaml", tmp_path) == ExitCode.USAGE
    assert await asyncio.to_thread(run, ["offline", "fetch"]) == ExitCode.USAGE
    assert await asyncio.to_thread(run, ["offline", "nonsense"]) == ExitCode.USAGE


async def test_a_folder_that_cannot_be_written(publisher: Publisher, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text("")
    assert await fetch(publisher.index, tmp_path / "file" / "in") == ExitCode.FAILED
    assert "cannot be written" in capsys.readouterr().err
