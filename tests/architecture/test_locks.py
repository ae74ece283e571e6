"""Every lock file pins versions and hashes, and names no place to download from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from architecture.sources import ROOT

LOCKS = [*sorted((ROOT / "requirements").glob("*.lock")), *sorted((ROOT / "tests" / "controlplane").glob("*.lock"))]
PIN = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,-]+\])?==[0-9][A-Za-z0-9.+!-]*( ; .+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements(lock: Path) -> list[list[str]]:
    """Each requirement with its hashes: the parts of one logical line; comments are left out."""
    text = re.sub(r"(?m)^\s*#.*\n?", "", lock.read_text(encoding="utf-8"))
    lines = text.replace("\\\n", "\0").splitlines()
    return [[part.strip() for part in line.split("\0")] for line in lines if line.strip()]


def test_the_lock_files_are_there() -> None:
    assert [lock.name for lock in LOCKS] == ["dev.lock", "runtime.lock", "go-toolchain.lock"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_requirement_is_pinned_with_a_hash(lock: Path) -> None:
    found = requirements(lock)
    assert found
    for pin, *hashes in found:
        assert PIN.fullmatch(pin), f"{lock.name}: {pin!r} is no exact pin"
        assert hashes, f"{lock.name}: {pin} has no hash"
        assert all(HASH.fullmatch(one) for one in hashes), f"{lock.name}: {pin}"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_no_address_stands_in_a_lock_file(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host|^-[ifr] ", text, re.MULTILINE)


def test_the_development_lock_repeats_the_runtime_lock() -> None:
    """Tests run on exactly the packages that are shipped."""
    development = {pin for pin, *_ in requirements(ROOT / "requirements" / "dev.lock")}
    assert {pin for pin, *_ in requirements(ROOT / "requirements" / "runtime.lock")} <= development
