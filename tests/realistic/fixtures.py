"""Pytest plugin: the programs of the realistic control plane, found or built before the first test runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from controlplane.go_module import BinariesUnavailable
from realistic.programs import RealisticPrograms, find_programs
from realistic.target_cluster import TargetCluster

_FIXTURE = "realistic_programs"
_found: pytest.StashKey[RealisticPrograms | BinariesUnavailable] = pytest.StashKey()


def pytest_collection_finish(session: pytest.Session) -> None:
    """A build takes longer than a test may."""
    needed = any(_FIXTURE in getattr(item, "fixturenames", ()) for item in session.items)
    if session.config.option.collectonly or not needed:
        return
    try:
        session.config.stash[_found] = find_programs()
    except BinariesUnavailable as error:
        session.config.stash[_found] = error


@pytest.fixture(scope="session")
def realistic_programs(pytestconfig: pytest.Config) -> RealisticPrograms:
    """Both sets; skips, or fails in CI, with the command that would provide them."""
    found = pytestconfig.stash[_found]
    if isinstance(found, RealisticPrograms):
        return found
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(str(found), pytrace=False)
    pytest.skip(str(found))


@pytest.fixture
def target_cluster(realistic_programs: RealisticPrograms) -> Iterator[TargetCluster]:
    """Three control-plane nodes at the older versions, without Node objects."""
    with TargetCluster(realistic_programs) as running:
        yield running
