"""What the distribution `hopline` installs: five packages, two commands, data, and nothing of anybody else."""

from __future__ import annotations

import importlib.resources
import tomllib
from importlib import metadata

import pytest

from architecture.sources import PACKAGES, ROOT

DISTRIBUTION = "hopline"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_belongs_to_this_distribution_only(package: str) -> None:
    assert set(metadata.packages_distributions()[package]) == {DISTRIBUTION}


def test_the_distribution_installs_no_other_package() -> None:
    owned = {name for name, owners in metadata.packages_distributions().items() if DISTRIBUTION in owners}
    assert {name for name in owned if not name.startswith("__editable__")} == set(PACKAGES)


@pytest.mark.parametrize("command", ["hopline", "hopline-worker"])
def test_a_console_script_is_installed_and_loads(command: str) -> None:
    (script,) = metadata.entry_points(group="console_scripts", name=command)
    assert script.dist is not None and script.dist.name == DISTRIBUTION
    assert callable(script.load())


def test_type_information_is_shipped() -> None:
    assert importlib.resources.files("hopline").joinpath("py.typed").is_file()


def test_the_metadata_names_what_the_lock_file_pins() -> None:
    """Whoever installs with pip alone gets the same packages that the lock file pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {line.split(">=")[0] for line in project["dependencies"]}
    wanted = (ROOT / "requirements" / "runtime.in").read_text().split()
    assert declared == {line.split("==")[0] for line in wanted}
    required = metadata.requires(DISTRIBUTION) or []
    assert len(required) == len(project["dependencies"])
    assert metadata.version(DISTRIBUTION) == project["version"]
