"""The import contracts of pyproject.toml hold, and each of them bites."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from architecture.sources import PACKAGES, ROOT

CONTRACTS = [
    contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
]
VIOLATIONS = {
    "Applications over workflows over activities over the library": (
        "activities/checks.py",
        "import workflows.messages",
    ),
    "The library is layered; adapters do not know each other": ("hopline/sim/api.py", "import hopline.files.texts"),
    "The domain is pure": ("hopline/domain/versions.py", "import time"),
    "Only hopline.kube imports the Kubernetes client": ("activities/checks.py", "import kubernetes"),
    "Only hopline.documents imports yaml": ("hopline/operations/reading.py", "import yaml"),
    "Only hopline.oci talks to registries and verifies signatures": (
        "hopline/operations/reading.py",
        "import cryptography",
    ),
    "Only hopline.ssh speaks SSH": ("hopline/operations/reading.py", "import asyncssh"),
    "The terminal never reaches the Kubernetes client": ("starter/session.py", "import hopline.wiring"),
    "Temporal code sees ports, never an adapter": ("workflows/hop_run.py", "import hopline.sim"),
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """`lint-imports` on the packages of `folder`."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--no-logo"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The five packages and their contracts, in a folder that a test may spoil."""
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package,
            tmp_path / package,
            ignore=lambda _, names: [name for name in names if name == "__pycache__"],
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_is_kept() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in result.stdout


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_forbidden_import_is_reported_with_its_chain(copy: Path, contract: str) -> None:
    name, line = VIOLATIONS[contract]
    file = copy / name
    file.write_text(f"{file.read_text()}\n{line}\n")
    result = lint_imports(copy)
    assert result.returncode == 1, result.stdout
    assert f"{contract} BROKEN" in result.stdout
    imported = line.removeprefix("import ")
    assert f"{name.removesuffix('.py').replace('/', '.')} -> {imported}" in result.stdout
