"""Pytest plugin: the fixtures of the real control plane, which mark the tests that use them.

The programs are found or built before the first test runs, because a build takes longer than a test may.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from absent_parts import given, looked_for
from controlplane.binaries import Binaries, BinariesUnavailable, find_binaries
from controlplane.control_plane import ControlPlane

_FIXTURES = frozenset({"control_plane", "control_plane_binaries"})
_CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
_found: pytest.StashKey[Binaries | BinariesUnavailable] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives every test that needs the control plane its marker, before `-m` chooses."""
    for item in items:
        if _FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.controlplane)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Finds or builds the programs once the tests to run are known."""
    if session.config.option.collectonly or not any(item.get_closest_marker("controlplane") for item in session.items):
        return
    session.config.stash[_found] = looked_for(find_binaries)


@pytest.fixture(scope="session")
def control_plane_binaries(pytestconfig: pytest.Config) -> Binaries:
    """The programs of the control plane; skips, or fails in CI, with the command that would provide them."""
    return given(pytestconfig.stash[_found])


@pytest.fixture(scope="module")
def control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane for one test file, with the CRDs of deploy/crds; give each test a `kube_namespace`.

    Nodes, kube-system and the one UpgradePath belong to the whole cluster: files that shared one would meet others'.
    """
    with ControlPlane(control_plane_binaries) as running:
        running.install_crds(_CRDS)
        yield running


@pytest.fixture
def kube_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh Kubernetes namespace, so that tests on the shared control plane keep apart."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
