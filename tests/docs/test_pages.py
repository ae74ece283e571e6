"""Tables and names of the docs agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from docs.pages import PAGES, ROOT, inline_code, page_name, rows, text_of
from hopline.runtime import settings
from hopline.runtime.settings import Settings
from workflows import metrics
from workflows.identifiers import SEARCH_ATTRIBUTES

DOCS = ROOT / "docs"
FAILURES, OPERATIONS, ARCHITECTURE = DOCS / "failure-modes.md", DOCS / "operations.md", DOCS / "architecture.md"
FILE = re.compile(r"[\w.*-]+(/[\w.*-]+)*(/|\.(py|md|yaml|lock|in|toml))")
NOT_OURS = {
    "release.yaml",
    "component.yaml",
    "index.yaml",
    "spec.yaml",
    "manifests.yaml",
    "openfuyao-api.md",
    "openfuyao-nodes.md",
    "observed.md",
    "temporal.md",
    "screens.md",
}
"""Files and fields of what is published, and the working papers that comments name."""
HOMES = (ROOT, ROOT / "hopline", DOCS)
VARIABLE = re.compile(r"`(HOPLINE_[A-Z_]+)`")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = [code for code in inline_code(page) if FILE.fullmatch(code) and code not in NOT_OURS]
    gone = [name for name in named if not any(list(home.glob(name)) for home in HOMES)]
    assert not gone


@pytest.mark.parametrize("row", rows(FAILURES), ids=lambda row: next(iter(row.values()))[:40])
def test_a_failure_mode_has_every_cell_and_a_test_behind_it(row: dict[str, str]) -> None:
    assert all(row.values())
    tests = re.findall(r"`(tests/[^`:]+)(?:::(\w+))?`", row["test"])
    assert tests, "no test is named"
    for path, name in tests:
        files = [ROOT / path] if path.endswith(".py") else list((ROOT / path).glob("test_*.py"))
        assert files and all(file.is_file() for file in files), path
        assert not name or f"def {name}(" in files[0].read_text(), f"{path} has no {name}"


def variables_read() -> set[str]:
    """The variables that the one reader of the environment reads."""
    return set(re.findall(r'"(HOPLINE_[A-Z_]+)"', Path(settings.__file__).read_text()))


def test_every_setting_is_documented_and_read() -> None:
    read = variables_read()
    documented = {name for row in rows(OPERATIONS) for name in VARIABLE.findall(row.get("variable", ""))}
    assert documented == read
    assert read >= {name for page in PAGES for name in VARIABLE.findall(text_of(page))}


def test_documented_defaults_are_the_defaults() -> None:
    told = {row["variable"]: row["default"] for row in rows(OPERATIONS) if "default" in row}
    checked = set()
    for variables, defaults in told.items():
        names, values = VARIABLE.findall(variables), [one.strip(" `") for one in defaults.split(",")]
        if len(names) != len(values):
            continue
        for name, value in zip(names, values, strict=True):
            default = getattr(Settings(), name.removeprefix("HOPLINE_").lower())
            assert value == ("–" if default is None else str(default)), name
            checked.add(name)
    assert variables_read() - checked == {"HOPLINE_KUBECONFIG"}  # its default is the one of kubectl


def test_search_attributes_and_metrics_have_their_documented_names() -> None:
    known = {key.name for key in SEARCH_ATTRIBUTES}
    assert set(re.findall(r"`(Hopline[A-Z]\w+)`", text_of(OPERATIONS))) <= known
    assert {metrics.COMPONENT_DURATION, metrics.HOPS} == set(re.findall(r"`(hopline_\w+)`", text_of(ARCHITECTURE)))


def test_the_architecture_names_every_package_of_the_library() -> None:
    packages = {f"hopline/{file.parent.name}/" for file in (ROOT / "hopline").glob("*/__init__.py")}
    assert packages | {"hopline/ports.py"} == set(re.findall(r"`(hopline/[\w.]+/?)`", text_of(ARCHITECTURE)))


def test_every_deviation_says_what_was_and_what_is() -> None:
    deviations = rows(DOCS / "compatibility.md")
    assert len(deviations) > 30
    assert not [row for row in deviations if not (row["what"] and row["before"] and row["Hopline"])]
    assert len({row["what"] for row in deviations}) == len(deviations)


def test_every_dependency_has_its_reason() -> None:
    wanted = {
        line.partition("==")[0].partition("[")[0] for line in (ROOT / "requirements/runtime.in").read_text().split()
    }
    (page,) = DOCS.glob("decisions/0001-*.md")
    reasons = " ".join(row["package"] for row in rows(page))
    assert not {name for name in wanted if name not in reasons}


def test_decisions_are_numbered_without_a_gap() -> None:
    pages = sorted((DOCS / "decisions").glob("*.md"))
    for number, page in enumerate(pages, start=1):
        assert page.name.startswith(f"{number:04}-")
        assert text_of(page).startswith(f"# {number:04} ")


def test_settings_are_a_model_that_a_page_can_describe() -> None:
    """Every field of the settings comes from a variable, so that the table is complete."""
    assert issubclass(Settings, BaseModel)
    text = Path(settings.__file__).read_text()
    assert not [name for name in Settings.model_fields if not re.search(rf"\b{name}=(env|_temporal|bool)", text)]
