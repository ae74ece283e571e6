"""What becomes of a test whose outside part is not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

from controlplane.go_module import BinariesUnavailable

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

T = TypeVar("T")


def absent(reason: object) -> NoReturn:
    """Skips with the command that would provide the part; fails in CI, where every part must be there."""
    if IN_CI:
        pytest.fail(str(reason), pytrace=False)
    pytest.skip(str(reason))


def present(find: Callable[[], T]) -> T:
    """Programs that are found, or built first."""
    return given(looked_for(find))


def looked_for(find: Callable[[], T]) -> T | BinariesUnavailable:
    """The same, for whoever must look before the first test runs: why there are none is for the tests to tell."""
    try:
        return find()
    except BinariesUnavailable as error:
        return error


def given(found: T | BinariesUnavailable) -> T:
    """What `looked_for` has found."""
    if isinstance(found, BinariesUnavailable):
        absent(found)
    return found
