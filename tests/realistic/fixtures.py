"""Pytest plugin: the programs of the realistic control plane, found or built before the first test runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from absent_parts import given, looked_for
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
    session.config.stash[_found] = looked_for(find_programs)


@pytest.fixture(scope="session")
def realistic_programs(pytestconfig: pytest.Config) -> RealisticPrograms:
    """Both sets; skips, or fails in CI, with the command that would provide them."""
    return given(pytestconfig.stash[_found])


@pytest.fixture
def target_cluster(realistic_programs: RealisticPrograms) -> Iterator[TargetCluster]:
    """Three control-plane nodes at the older versions, without Node objects."""
    with TargetCluster(realistic_programs) as running:
        yield running
