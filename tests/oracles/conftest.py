"""The reference programs as fixtures; absent ones skip with the command that builds them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from absent_parts import absent
from controlplane.binaries import BinariesUnavailable
from oracles.programs import Oracle, Reference, running


@pytest.fixture(scope="session")
def go_render() -> Iterator[Oracle]:
    """Go's text/template."""
    yield from _running(Reference.RENDER)


@pytest.fixture(scope="session")
def go_read() -> Iterator[Oracle]:
    """Kubernetes' reading of YAML."""
    yield from _running(Reference.READ)


def _running(reference: Reference) -> Iterator[Oracle]:
    try:
        with running(reference) as oracle:
            yield oracle
    except BinariesUnavailable as error:
        absent(error)
