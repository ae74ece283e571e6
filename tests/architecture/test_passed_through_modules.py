"""What every run of a worker shares holds no state: the modules that workflow files pass through the sandbox."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture.sources import ROOT, functions, python_files, shown, tree_of

LOAD_WORKFLOWS = """
import importlib, pathlib, sys
for file in pathlib.Path("workflows").glob("[!_]*.py"):
    importlib.import_module(f"workflows.{file.stem}")
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] in ("hopline", "activities", "workflows"):
        print(module.__file__)
"""
MUTATORS = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault",
    "sort", "update",
}  # fmt: skip
CACHES = {"cache", "lru_cache"}
EMPTY = {"dict", "frozenset", "list", "set", "tuple"}
CLOCKS = {"now", "today", "utcnow"}
OUTSIDE = {"exec", "eval", "input", "open", "print"}


@pytest.fixture(scope="module")
def shared() -> list[Path]:
    """Our modules that are loaded when every workflow file is."""
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD_WORKFLOWS], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return [Path(line) for line in loaded.stdout.splitlines()]


def module_names(tree: ast.Module) -> set[str]:
    """What the module binds by assignment at its top level."""
    found = set()
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign | ast.AugAssign):
            targets = [statement.target]
        found |= {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return found


def root_of(node: ast.AST | None) -> str:
    """`A` of `A`, `A[…]`, `A.b` and `A[…].b`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def changed_by(node: ast.AST) -> ast.AST | None:
    """What an assignment to a part, a deletion of a part, or the call of a mutating method changes."""
    if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS
    return node.func if is_method else None


def changes(function: ast.AST, names: set[str]) -> Iterator[str]:
    """Places in a function that change what one of the module's names holds."""
    local = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local |= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    outer = names - local
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield f"line {node.lineno}: global {', '.join(node.names)}"
        elif root_of(changed_by(node)) in outer:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def state_of(tree: ast.Module) -> list[str]:
    """Every way in which the module keeps something from one call to the next."""
    names = module_names(tree)
    found = [change for function in functions(tree) for change in changes(function, names)]
    for function in functions(tree):
        for decorator in function.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if ast.unparse(called).rpartition(".")[2] in CACHES:
                found.append(f"line {function.lineno}: {function.name} is cached for the life of the process")
    return found


def factories_of(tree: ast.Module) -> list[str]:
    """Default factories that are neither an empty container nor a class of their own module's world."""
    return [
        f"line {node.value.lineno}: default_factory={ast.unparse(node.value)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "default_factory"
        if not isinstance(node.value, ast.Name) or not (node.value.id in EMPTY or node.value.id[0].isupper())
    ]


def reach_outside(tree: ast.Module) -> list[str]:
    """Reads of the clock, and calls that touch the world."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        is_clock = isinstance(called, ast.Attribute) and called.attr in CLOCKS
        if is_clock or (isinstance(called, ast.Name) and called.id in OUTSIDE):
            found.append(f"line {node.lineno}: {ast.unparse(called)}()")
    return found


def test_workflow_files_share_the_domain_and_the_activities(shared: list[Path]) -> None:
    assert {ROOT / "hopline" / "domain" / "plan.py", ROOT / "activities" / "hop.py"} <= set(shared)


def test_no_shared_module_keeps_state(shared: list[Path]) -> None:
    assert not {shown(file): found for file in shared if (found := state_of(tree_of(file)))}


def test_no_default_factory_reads_a_clock_or_makes_an_id(shared: list[Path]) -> None:
    assert not {shown(file): found for file in shared if (found := factories_of(tree_of(file)))}


def test_the_domain_neither_reads_a_clock_nor_touches_the_world() -> None:
    files = python_files("hopline/domain")
    assert files
    assert not {shown(file): found for file in files if (found := reach_outside(tree_of(file)))}


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (state_of, "SEEN = {}\ndef f(x):\n    SEEN[x] = 1\n"),
        (state_of, "SEEN = []\nclass A:\n    def f(self, x):\n        SEEN.append(x)\n"),
        (state_of, "COUNT = 0\ndef f():\n    global COUNT\n    COUNT += 1\n"),
        (state_of, "BOX = Box()\ndef f(x):\n    BOX.inner.value = x\n"),
        (state_of, "import functools\n@functools.lru_cache(maxsize=None)\ndef f(x):\n    return x\n"),
        (factories_of, "class A:\n    id: str = Field(default_factory=uuid4)\n"),
        (factories_of, "class A:\n    at: datetime = field(default_factory=lambda: datetime.now())\n"),
        (reach_outside, "def f():\n    return datetime.now(UTC)\n"),
        (reach_outside, "def f(name):\n    return open(name)\n"),
    ],
)
def test_a_violation_is_seen(look: object, text: str) -> None:
    assert callable(look)
    assert look(ast.parse(text))


def test_what_is_local_is_no_state() -> None:
    assert not state_of(
        ast.parse("SEEN = {}\ndef f(SEEN):\n    SEEN[1] = 1\ndef g():\n    mine = []\n    mine.append(1)\n")
    )
