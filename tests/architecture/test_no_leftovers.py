"""No committed file leans on the machine it was written on, nothing is left half done, nothing grows without a wall."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from architecture.sources import PACKAGES, ROOT, committed_files, functions, python_files, shown, tree_of

LONGEST_FILE, LONGEST_FUNCTION, LONGEST_RUN = 400, 50, 45
VAGUE = re.compile(r"(^|[_.-])(utils?|helpers?|common|misc|managers?)([_.-]|$)", re.IGNORECASE)
PLACES = {
    "a path of a workplace": re.compile(r"(?<![\w.])/work/|\.\./shared|/home/|/Users/"),
    "a package registry": re.compile(
        r"pypi\.org|pythonhosted\.org|proxy\.golang\.org|sum\.golang\.org|goproxy|registry\.npmjs\.org"
        r"|--(extra-)?index-url|--find-links|PIP_INDEX_URL",
        re.IGNORECASE,
    ),
}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
THESE_TESTS = "tests/architecture/"  # they spell what nobody else may


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Every committed text file but these tests."""
    found = {}
    for name in committed_files():
        content = (ROOT / name).read_bytes()
        if b"\0" not in content and not name.startswith(THESE_TESTS):
            found[name] = content.decode("utf-8")
    return found


@pytest.mark.parametrize("what", PLACES)
def test_no_file_names_a_place_outside(texts: dict[str, str], what: str) -> None:
    assert not [name for name, text in texts.items() if PLACES[what].search(text)]


def test_nothing_is_marked_as_unfinished(texts: dict[str, str]) -> None:
    assert not [name for name, text in texts.items() if UNFINISHED.search(text)]


def test_no_name_is_vague() -> None:
    assert not [name for name in committed_files() if any(VAGUE.search(part) for part in PurePosixPath(name).parts)]


def test_tests_do_not_hide_a_package() -> None:
    """A `tests/workflows/__init__.py` would stand before the package `workflows`."""
    assert not [name for name in committed_files() if name.startswith("tests/") and name.endswith("/__init__.py")]


def test_files_and_functions_stay_short() -> None:
    long = []
    for file in python_files(*PACKAGES):
        tree = tree_of(file)
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE:
            long.append(f"{shown(file)}: {lines} lines")
        for function in functions(tree):
            lines = (function.end_lineno or 0) - function.lineno + 1
            is_run = function.name == "run" and file.parent.name == "workflows"
            if lines > (LONGEST_RUN if is_run else LONGEST_FUNCTION):
                long.append(f"{shown(file)}: {function.name} has {lines} lines")
    assert not long
