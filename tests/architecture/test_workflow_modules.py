"""House rules of workflow and activity code: sandbox, registration, models, options by name."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import pytest
from annotated_types import BaseMetadata
from temporalio import activity, workflow
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from architecture.sources import PACKAGES, ROOT, python_files, shown, tree_of
from hopline.domain.wire import WireModel
from hopline.runtime.settings import Settings
from hopline.wiring import Ports
from worker.composition import WORKFLOWS, activities_for
from workflows import activity_options

WORKFLOW_FILES = [file for file in python_files("workflows") if file.name != "__init__.py"]
STORIES = [file for file in WORKFLOW_FILES if "@workflow.defn" in file.read_text(encoding="utf-8")]
OPTIONS = "activity_options"
FORGETFUL = """
from temporalio import workflow
import hopline.domain.versions

@workflow.defn
class Story:
    @workflow.run
    async def run(self) -> None: ...
"""
CALLS = {"execute_activity", "execute_activity_method", "start_activity", "start_activity_method"}
OTHER_CALLS = {
    "execute_local_activity",
    "execute_local_activity_method",
    "start_local_activity",
    "execute_activity_class",
}


def definition_of(workflow_class: type) -> workflow._Definition:
    """What the decorators have recorded."""
    definition = workflow._Definition.from_class(workflow_class)
    assert definition is not None
    return definition


def activity_of(method: Any) -> activity._Definition:
    """What `@activity.defn` has recorded."""
    definition = activity._Definition.from_callable(method)
    assert definition is not None
    return definition


def classes_of(package: str) -> Iterator[type]:
    """Every class that a module of the package defines."""
    for file in python_files(package):
        module = importlib.import_module(f"{package}.{file.stem}" if file.stem != "__init__" else package)
        for found in vars(module).values():
            if inspect.isclass(found) and found.__module__ == module.__name__:
                yield found


@pytest.fixture(scope="module")
def registered() -> list[activity._Definition]:
    """The activities that a worker offers; they are only looked at, so their ports may be absent."""
    absent: Any = type("Absent", (), {"__getattr__": lambda self, name: self})()
    ports = Ports(**{field.name: absent for field in dataclasses.fields(Ports)})
    return [activity_of(method) for method in activities_for(ports, Settings(), search_attributes=False)]


@pytest.mark.parametrize("file", STORIES, ids=lambda file: file.stem)
def test_a_workflow_file_passes_its_own_modules_through(file: Path) -> None:
    plain = {
        alias.name if isinstance(node, ast.Import) else node.module or ""
        for node in tree_of(file).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not {name for name in plain if name.partition(".")[0] in PACKAGES}


@pytest.mark.parametrize("workflow_class", WORKFLOWS, ids=lambda workflow_class: workflow_class.__name__)
async def test_the_sandbox_loads_a_workflow_without_an_unintended_import(workflow_class: type) -> None:
    strict_runner().prepare_workflow(definition_of(workflow_class))


async def test_the_sandbox_refuses_a_workflow_that_forgets_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "forgetful_story.py").write_text(FORGETFUL)
    monkeypatch.syspath_prepend(tmp_path)
    story = importlib.import_module("forgetful_story").Story
    with pytest.raises(Exception, match=r"hopline\.domain\.versions"):
        strict_runner().prepare_workflow(definition_of(story))


def strict_runner() -> SandboxedWorkflowRunner:
    """The sandbox of a worker, which also refuses a module that the workflow file did not pass through."""
    policy = workflow.SandboxImportNotificationPolicy.RAISE_ON_UNINTENTIONAL_PASSTHROUGH
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_import_notification_policy(policy))


def test_imports_happen_at_the_top_of_a_file() -> None:
    """An import inside a function of a workflow would run in the sandbox, in the middle of a story."""
    late = [
        f"{shown(file)}:{node.lineno}"
        for file in WORKFLOW_FILES
        for function in ast.walk(tree_of(file))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not late


def test_the_package_of_the_workflows_is_empty() -> None:
    """It would be executed in the sandbox for every run."""
    assert not (ROOT / "workflows" / "__init__.py").read_text().strip()


def test_every_workflow_is_registered_once() -> None:
    defined = [found for found in classes_of("workflows") if "__temporal_workflow_definition" in vars(found)]
    assert Counter(WORKFLOWS) == Counter(defined)


def test_every_activity_is_registered_once(registered: list[activity._Definition]) -> None:
    defined = [
        activity_of(method).name
        for found in classes_of("activities")
        for method in vars(found).values()
        if hasattr(method, "__temporal_activity_definition")
    ]
    assert Counter(definition.name for definition in registered) == Counter(defined)
    assert max(Counter(defined).values()) == 1


def test_an_activity_takes_one_model_and_returns_one(registered: list[activity._Definition]) -> None:
    for definition in registered:
        assert is_model(*(definition.arg_types or [])), definition.name
        assert is_model(definition.ret_type), definition.name


@pytest.mark.parametrize("workflow_class", WORKFLOWS, ids=lambda workflow_class: workflow_class.__name__)
def test_a_workflow_and_its_messages_take_one_model_and_return_one(workflow_class: type) -> None:
    definition = definition_of(workflow_class)
    assert is_model(definition.ret_type)
    # The one exception: a start input that a person types is parsed in the workflow, which names the wrong field.
    assert is_model(*(definition.arg_types or [])) or definition.arg_types == [Any]
    for name, update in definition.updates.items():
        assert is_model(*(update.arg_types or [])) and is_model(update.ret_type), name
    for name, query in definition.queries.items():
        assert (not query.arg_types or is_model(*query.arg_types)) and is_model(query.ret_type), name
    for name, signal in definition.signals.items():
        assert is_model(*(signal.arg_types or [])), name


def test_a_result_with_a_newer_word_still_decodes(registered: list[activity._Definition]) -> None:
    """An older worker reads the results of a newer one while both run: enums fall back, no constraint rejects."""
    results = [definition.ret_type for definition in registered]
    for workflow_class in WORKFLOWS:
        definition = definition_of(workflow_class)
        results += [definition.ret_type, *(query.ret_type for query in definition.queries.values())]
    strict, constrained = set(), set()
    for model in {model for result in results for model in models_in(result)}:
        for name, field in model.model_fields.items():
            strict |= {f"{model.__name__}.{name}" for found in types_in(field.annotation) if is_strict(found)}
            constrained |= {f"{model.__name__}.{name}" for one in field.metadata if isinstance(one, BaseMetadata)}
    assert not strict
    assert not constrained


def types_in(annotation: Any) -> Iterator[Any]:
    """The annotation and everything inside it."""
    yield annotation
    for argument in get_args(annotation):
        yield from types_in(argument)


def models_in(annotation: Any) -> Iterator[type[WireModel]]:
    """Every model that a value of this type may hold."""
    for found in types_in(annotation):
        if inspect.isclass(found) and issubclass(found, WireModel):
            yield found
            for field in found.model_fields.values():
                yield from models_in(field.annotation)


def is_strict(found: Any) -> bool:
    """An enum that refuses a word it does not know."""
    if not inspect.isclass(found) or not issubclass(found, Enum):
        return False
    try:
        found("a word of a newer version")
    except ValueError:
        return True
    return False


def is_model(*types: Any) -> bool:
    """One type, and it is a wire model."""
    return len(types) == 1 and inspect.isclass(types[0]) and issubclass(types[0], WireModel)


def test_options_of_an_activity_are_taken_by_name() -> None:
    """No call spells a timeout, a retry policy or the name of an activity."""
    wrong, count = [], 0
    for file in WORKFLOW_FILES:
        for node in ast.walk(tree_of(file)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            assert node.func.attr not in OTHER_CALLS, f"{shown(file)}:{node.lineno}"
            if node.func.attr in CALLS:
                count += 1
                given = {keyword.arg for keyword in node.keywords}
                named = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg is None]
                by_name = len(named) == 1 and named[0].startswith(f"{OPTIONS}.")
                if not by_name or given & set(activity_options.Options.__annotations__) or not is_method(node.args[0]):
                    wrong.append(f"{shown(file)}:{node.lineno}")
    assert count > 10
    assert not wrong


def is_method(node: ast.expr) -> bool:
    """`SomeActivities.some_method`, which mypy can check."""
    return isinstance(node, ast.Attribute) and ast.unparse(node).partition(".")[0].endswith("Activities")


def test_every_activity_call_says_in_the_web_ui_what_it_does() -> None:
    silent = [
        f"{shown(file)}:{node.lineno}"
        for file in WORKFLOW_FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS
        if "summary" not in {keyword.arg for keyword in node.keywords}
    ]
    assert not silent


def test_times_are_named_constants_and_retry_policies_have_one_home() -> None:
    """Outside `activity_options` a length of time is a constant of its module, with a name; zero and one are words."""
    wrong = []
    for file in WORKFLOW_FILES:
        tree = tree_of(file)
        named = {
            id(node) for statement in tree.body if isinstance(statement, ast.Assign) for node in ast.walk(statement)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or file.stem == OPTIONS:
                continue
            called = ast.unparse(node.func)
            literals = [arg.value for arg in literal_arguments(node)]
            is_length = (
                called == "timedelta" and id(node) not in named and any(value not in (0, 1) for value in literals)
            )
            if is_length or called.endswith("RetryPolicy"):
                wrong.append(f"{shown(file)}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong


def literal_arguments(call: ast.Call) -> list[ast.Constant]:
    """The arguments that are written out as values."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return [argument for argument in given if isinstance(argument, ast.Constant)]


@pytest.mark.parametrize("name", ["READ", "PLAN", "EFFECT"])
def test_every_set_of_options_bounds_an_attempt_and_hears_of_a_dead_worker(name: str) -> None:
    options = getattr(activity_options, name)
    assert options["start_to_close_timeout"] and options["heartbeat_timeout"] == activity_options.HEARTBEAT_TIMEOUT
    assert options["retry_policy"].maximum_attempts == 0, "attempts are bounded by time only"
