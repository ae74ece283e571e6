"""The committed files and the syntax trees that the architecture's tests look at."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("hopline", "workflows", "activities", "worker", "starter")


def committed_files() -> list[str]:
    """The paths that git tracks, relative to the root; those that are deleted just now are left out."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a git checkout: apt-get install git, then git clone")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def python_files(*folders: str) -> list[Path]:
    """Every Python file of the folders."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def tree_of(file: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def shown(file: Path) -> str:
    """The path as a message names it."""
    return str(file.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, those inside others too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
