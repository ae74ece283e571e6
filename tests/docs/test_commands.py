"""What README and docs tell a person to type can be typed."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from docs.pages import PAGES, ROOT, commands, page_name, text_of
from starter.__main__ import COMMANDS, hopline
from starter.exit_codes import ExitCode
from workflows.identifiers import CLUSTER_UPGRADE, TASK_QUEUE
from workflows.messages import UpgradeInput
from workflows.upgrade_input import read_upgrade_input

README = ROOT / "README.md"


def typed(program: str) -> Iterator[object]:
    """Every command of every page, with the page's name as the id."""
    for page in PAGES:
        for number, command in enumerate(dict.fromkeys(commands(page, program))):
            yield pytest.param(command, id=f"{page_name(page)}-{number}")


@pytest.mark.parametrize("command", typed("hopline"))
def test_a_hopline_command_parses(command: str) -> None:
    name, *arguments = shlex.split(command.removeprefix("hopline "))
    if name.startswith("-"):
        return
    context = click.Context(hopline)
    found = hopline.get_command(context, name)
    assert found is not None, f"{name} is no command"
    while isinstance(found, click.Group) and arguments:
        found = found.get_command(context, arguments.pop(0))
        assert found is not None, f"{command}: no such command"
    inner = click.Context(found, info_name=name)
    _, positional, _ = found.make_parser(inner).parse_args(args=arguments)
    wanted = [parameter for parameter in found.params if isinstance(parameter, click.Argument)]
    # A page may name a command alone; written out, it has all that it requires.
    if arguments:
        assert not positional
        values, _, _ = found.make_parser(inner).parse_args(args=shlex.split(command)[2:])
        missing = [item.name for item in found.params if item.required and values.get(item.name or "") is None]
        assert not missing, f"{command}: {missing}"
        assert len([item for item in wanted if values.get(item.name or "")]) == len(wanted)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    found = hopline.get_command(click.Context(hopline), name)
    assert found is not None
    with click.Context(found, info_name=name) as context:
        assert found.get_help(context).startswith(f"Usage: {name}")
    assert found.get_short_help_str()


@pytest.mark.parametrize("command", typed("make"))
def test_a_make_target_exists(command: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert shlex.split(command)[1] in targets


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test" in commands(README, "make")


def test_the_readme_shows_every_command_that_a_person_needs() -> None:
    shown = {command.split()[1] for command in commands(README, "hopline")}
    assert set(COMMANDS) - {"demo"} <= shown  # the demo is `make demo`


def test_the_temporal_line_starts_the_workflow() -> None:
    (command,) = [command for page in PAGES for command in commands(page, "temporal workflow start")]
    words = shlex.split(command)
    options = dict(itertools.pairwise(words))
    request = read_upgrade_input(json.loads(options["--input"]), options["--workflow-id"])
    assert isinstance(request, UpgradeInput)
    assert (options["--type"], options["--task-queue"]) == (CLUSTER_UPGRADE, TASK_QUEUE)
    assert "--fail-existing" in words


def test_the_kubectl_line_patches_what_the_watcher_reads() -> None:
    (command,) = commands(README, "kubectl patch clusterversion")
    words = shlex.split(command)
    assert json.loads(words[words.index("-p") + 1]) == {"spec": {"desiredVersion": "v26.06"}}


def test_the_exit_codes_of_the_readme_are_all_of_them() -> None:
    sentence = re.search(r"Exit codes:([^.]*)\.", text_of(README))
    assert sentence is not None
    told = {int(number): words for number, words in re.findall(r"(\d) ([a-z ]+)", sentence[1].replace("\n", " "))}
    assert sorted(told) == sorted(ExitCode)
    for code in ExitCode:
        assert told[code].startswith(code.name.lower().replace("_", " "))
