"""`hopline release show` without a real registry: each phase, its exit code, and what a person sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from artifacts import FILES, titled
from oci_signed import SIGNATURE_KEYS, signed_registry
from scripted_registry import ScriptedRegistry, serving
from starter import release_images
from starter.__main__ import run
from starter.exit_codes import ExitCode

NAME = "kubernetes/release-image"


@pytest.fixture
async def registry(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedRegistry]:
    monkeypatch.setattr(release_images, "LONGEST_WAIT_SECONDS", 0.01)
    async with serving(ScriptedRegistry()) as running:
        yield running


async def show(registry: ScriptedRegistry, *options: str, tag: str = "v26.06") -> int:
    arguments = ["release", "show", f"{registry.host}/{NAME}:{tag}", "--plain-http", *options]
    return await asyncio.to_thread(run, arguments)


async def answer(
    registry: ScriptedRegistry, capsys: pytest.CaptureFixture[str], *options: str, tag: str = "v26.06"
) -> tuple[int, dict[str, Any]]:
    code = await show(registry, *options, "-o", "json", tag=tag)
    return code, json.loads(capsys.readouterr().out)


async def test_valid_on_a_screen(registry: ScriptedRegistry, capsys: pytest.CaptureFixture[str]) -> None:
    digest = registry.push("v26.06", titled())
    assert await show(registry) == ExitCode.DONE
    told = capsys.readouterr().out
    for part in (f"{NAME}:v26.06: Valid", digest, "not required", "coredns", "v1.12.0"):
        assert part in told


async def test_signed(registry: ScriptedRegistry, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    digest = signed_registry(registry, "ed25519", "bundle")
    (tmp_path / "cosign.pub").write_text(SIGNATURE_KEYS["ed25519"])
    code, found = await answer(registry, capsys, "--key", str(tmp_path / "cosign.pub"), "--digest", digest)
    assert (code, found["phase"], found["digest"]) == (0, "Valid", digest)
    assert found["signature"]["required"] and found["signature"]["verified"]
    assert found["signature"]["keys"][0].startswith("Ed25519 sha256:")


async def test_the_phases_that_are_not_valid(registry: ScriptedRegistry, capsys: pytest.CaptureFixture[str]) -> None:
    missing = await answer(registry, capsys)
    registry.push("v26.06", titled({"README.md": "x"}))
    invalid = await answer(registry, capsys)
    registry.push("v26.06", titled({path: text for path, text in FILES.items() if "coredns" not in path}))
    incomplete = await answer(registry, capsys)
    registry.push("v26.09", titled())
    other = await answer(registry, capsys, tag="v26.09")
    registry.before = lambda _: _answer(503)
    pending = await answer(registry, capsys)
    phases = [(code, found["phase"]) for code, found in (missing, invalid, incomplete, other, pending)]
    assert phases == [
        (3, "ManifestMissing"),
        (3, "Invalid"),
        (3, "CompatibilityFailed"),
        (3, "Invalid"),
        (3, "Pending"),
    ]
    for _, found in (missing, invalid, incomplete, other, pending):
        assert found["findings"][0]["severity"] == "blocks"
        assert found["findings"][0]["remedy"]


async def _answer(status: int) -> web.StreamResponse:
    return web.Response(status=status)


async def test_a_registry_that_recovers_is_asked_again(
    registry: ScriptedRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.push("v26.06", titled())

    async def once(_: web.Request) -> web.StreamResponse | None:
        return web.Response(status=503, headers={"Retry-After": "3"}) if len(registry.requests) == 1 else None

    registry.before = once
    assert (await answer(registry, capsys))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["release", "show", "release-image:v26.06"], "names no registry"),
        (["release", "show", "registry.test/a:v26.06", "--digest", "sha256:12"], "no digest"),
        (["release", "show", "registry.test/a:v26.06", "--key", "{folder}/not-a-key"], "no public key"),
        (["release", "show", "registry.test/a:v26.06", "--auth-file", "{folder}/not-a-key"], "no configuration"),
    ],
)
def test_options_that_cannot_be_used(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "not-a-key").write_text("hello")
    assert run([part.replace("{folder}", str(tmp_path)) for part in arguments]) == ExitCode.USAGE
    assert told in capsys.readouterr().err
