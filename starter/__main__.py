"""`hopline`: the terminal. Commands are loaded when they are used, so that `hopline path` starts in a moment."""

from __future__ import annotations

import importlib
from typing import NoReturn

import click

from starter.command_line import leave, run_command
from starter.exit_codes import LEGEND

COMMANDS = {
    "upgrade": "starter.commands.upgrade:upgrade",
    "status": "starter.commands.status:status",
    "plan": "starter.commands.plan:plan",
    "retry": "starter.commands.steering:retry",
    "abort": "starter.commands.steering:abort",
    "path": "starter.commands.path:path",
    "versions": "starter.commands.versions:versions",
    "check": "starter.commands.check:check",
    "release": "starter.commands.release:release",
    "catalogue": "starter.commands.catalogue:catalogue",
    "offline": "starter.commands.offline:offline",
    "watch": "starter.watch:watch",
    "demo": "starter.demo:demo",
}


class LazyGroup(click.Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a person meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.command(
    cls=LazyGroup, epilog=LEGEND, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="hopline")
def hopline() -> None:
    """Upgrade Kubernetes platforms hop by hop, as durable Temporal workflows.

    The service is found as the temporal CLI finds it: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_PROFILE.
    """


def run(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    return run_command(hopline, arguments, "hopline")


def main() -> NoReturn:
    """Entry point."""
    leave(run())


if __name__ == "__main__":
    main()
