"""`kill -9` in the middle of a build and of a load: the next one goes on, and nothing half-written counts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hopline.oci.layout import OciLayout
from hopline.runtime.settings import child_environment
from looking import until_enough
from offline_lab import CONFIG_NAME, HOPLINE, ROOT, TARBALL, login_options, program
from offline_site import Site
from stalling_proxy import StallingProxy
from starter.__main__ import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LAYERS, LAYER_BYTES, BIG_BYTES = 30, 1_000_000, 60_000_000


def killed(command: list[str], stalls: int, is_time: Callable[[], bool]) -> None:
    """Runs a command until it is time, stalls the process that it talks to, and kills it."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=child_environment({}), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not is_time():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(stalls, signal.SIGSTOP)
    try:
        assert process.poll() is None
        process.kill()
        process.wait()
    finally:
        os.kill(stalls, signal.SIGCONT)


def build_command(site: Site) -> list[str]:
    (site.folder / CONFIG_NAME).write_text(site.upstream.config())
    files = ["-f", str(site.folder / CONFIG_NAME), "-t", str(site.tarball)]
    return [*HOPLINE, "offline", "build", *files, *login_options(site.folder, site.upstream.registry)]


def layout_of(site: Site) -> OciLayout:
    work = site.tarball.with_name(f"{TARBALL}.work")
    return OciLayout(work / "offline-v26.06" / "volumes" / "oci-layout")


def blobs_in(layout: OciLayout) -> list[Path]:
    """Those that have their name; what is still written has another one."""
    return list((layout.root / "blobs" / "sha256").glob("[0-9a-f]*"))


def fetched(site: Site) -> Counter[str]:
    """How often each blob was asked for."""
    asked = [one for one in site.upstream.registry.requests() if one.startswith("GET") and "/blobs/sha256" in one]
    return Counter(f"sha256:{one.rpartition(':')[2]}" for one in asked)


def test_a_killed_build_goes_on(site: Site) -> None:
    site.upstream.push("many", "v1", program("many", layers=LAYERS, size=LAYER_BYTES))
    layout = layout_of(site)
    killed(build_command(site), site.upstream.registry.process_id, lambda: len(blobs_in(layout)) > 12)
    assert not site.tarball.exists()
    whole = [f"sha256:{blob.name}" for blob in blobs_in(layout)]
    for digest in whole:
        layout.check(digest, layout.blob(digest).stat().st_size)
    assert site.build() == 0
    # Over both builds: the registry notes a request when it is over, which may be after the kill.
    count = fetched(site)
    assert not [digest for digest in whole if count[digest] > 1], "what was whole is not fetched again"
    assert set(count) - set(whole), "something was left to fetch"
    assert site.load() == 0


def test_a_blob_that_was_half_there_goes_on_in_its_middle(site: Site) -> None:
    big = program("big", layers=1, size=BIG_BYTES)
    site.upstream.push("big", "v1", big)
    layout = layout_of(site)
    digest = max(big.blobs, key=lambda one: len(big.blobs[one]))
    part = layout.partial(digest)

    def is_in_the_middle() -> bool:
        return part.is_file() and part.stat().st_size > BIG_BYTES // 6

    killed(build_command(site), site.upstream.registry.process_id, is_in_the_middle)
    there = part.stat().st_size
    assert there < BIG_BYTES and not layout.blob(digest).exists()
    assert site.build() == 0
    (rest,) = [size for path, status, size in site.upstream.registry.answers() if digest in path and status == 206]
    assert rest == BIG_BYTES - there
    assert site.load() == 0


def test_a_killed_load_goes_on(site: Site) -> None:
    many = program("many", layers=LAYERS, size=LAYER_BYTES)
    site.upstream.push("many", "v1", many)
    assert site.build() == 0

    def held() -> list[Path]:
        return list((site.target.data / "blobs").glob("sha256/*/*/data"))

    killed(site.load_command(), site.target.process_id, lambda: len(held()) > 12)
    for blob in held():
        assert blob.stat().st_size, blob
    assert site.load() == 0
    ended = [one for one in site.writes() if one.startswith("PUT") and "digest=sha256" in one]
    count = Counter(one[-64:] for one in ended)
    twice = {digest: number for digest, number in count.items() if number > 1}
    # What was under way when the process died has been sent again; what was whole has not.
    assert len(twice) <= 6 and set(twice.values()) <= {2}
    assert sum(digest.removeprefix("sha256:") in count for digest in many.blobs) == len(many.blobs)


async def test_a_killed_load_goes_on_in_the_middle_of_a_blob(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """A real registry keeps what arrived of a request that broke off; the next load sends the rest of it only."""
    big = program("big", layers=1, size=BIG_BYTES)
    site.upstream.push("big", "v1", big)
    assert await asyncio.to_thread(site.build) == 0
    proxy = StallingProxy(site.target.host)
    command = load_through(site, proxy)
    try:
        proxy.stall_sending_after(BIG_BYTES // 2)
        await asyncio.to_thread(killed_while_stalled, command, proxy)
        proxy.go_on()
        # What the registry says of the request that broke off is the last that it does with it.
        await until_enough(lambda: asyncio.to_thread(site.writes), lambda seen: any(is_patch(one) for one in seen))
        digest = max(big.blobs, key=lambda one: len(big.blobs[one]))
        (there,) = [path.stat().st_size for path in site.target.data.glob("repositories/**/_uploads/*/data")]
        assert BIG_BYTES // 3 < there < BIG_BYTES
        before = proxy.sent
        capsys.readouterr()
        assert await asyncio.to_thread(run, [*command[len(HOPLINE) :], "-o", "json"]) == 0
        sent = proxy.sent - before
        assert json.loads(capsys.readouterr().out)["registry"]["resumedBytes"] == there
        # TLS, requests and the small blobs come on top.
        assert BIG_BYTES - there < sent < BIG_BYTES - there + 1_000_000
        hexadecimal = digest.removeprefix("sha256:")
        held = site.target.data / "blobs" / "sha256" / hexadecimal[:2] / hexadecimal / "data"
        assert held.read_bytes() == big.blobs[digest]
    finally:
        proxy.close()
    assert sorted(path.name for path in site.folder.glob(".*")) == []


def load_through(site: Site, proxy: StallingProxy) -> list[str]:
    """A load to the target by the address of the proxy."""
    options = site.load_command()
    login = json.loads(Path(options[-1]).read_text())["auths"][site.target.host]
    (site.folder / "proxy-auth.json").write_text(json.dumps({"auths": {proxy.host: login}}))
    return [*options[:-1], str(site.folder / "proxy-auth.json"), "--target", proxy.host]


def killed_while_stalled(command: list[str], proxy: StallingProxy) -> None:
    """Runs a command until nothing goes through the proxy any more, and kills it."""
    process = subprocess.Popen(command, cwd=ROOT, env=child_environment({}), stdout=subprocess.DEVNULL)
    try:
        assert proxy.stalled.wait(60)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def is_patch(request: str) -> bool:
    return request.startswith("PATCH")


def test_a_killed_load_of_a_tarball_leaves_files_whole_or_absent(site: Site) -> None:
    assert site.build() == 0
    folder = site.folder / "files"
    command = [*site.load_command(), "--files-dir", str(folder)]
    killed(command, site.target.process_id, lambda: bool(site.writes()))
    assert not folder.exists() or not list(folder.rglob("*.partial"))
    assert site.load("--files-dir", str(folder)) == 0
    assert len(list(folder.iterdir())) == 1
    assert not site.tarball.with_name(f".{TARBALL}.unpacked").exists()
