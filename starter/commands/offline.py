"""`hopline offline`: upgrades where there is no internet. Each command is loaded when it is used."""

from __future__ import annotations

import importlib

import click

from starter.exit_codes import LEGEND

COMMANDS = {
    "fetch": "starter.commands.offline_fetch:fetch",
    "build": "starter.commands.offline_build:build",
    "verify": "starter.commands.offline_verify:verify",
    "load": "starter.commands.offline_load:load",
}


class OfflineGroup(click.Group):
    """In the order in which a person meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None for an unknown name."""
        module, _, attribute = COMMANDS.get(cmd_name, "").partition(":")
        command = getattr(importlib.import_module(module), attribute) if module else None
        assert command is None or isinstance(command, click.Command)
        return command


@click.group(cls=OfflineGroup, epilog=LEGEND)
def offline() -> None:
    """Bring everything that an upgrade needs to a place without internet. Needs no cluster and no Temporal service."""
