"""Arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from hopline.domain.wire import ClusterKey
from starter.durations import parsed
from starter.terminal import Output

Command = TypeVar("Command", bound=Callable[..., Any])

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice([output.value for output in Output]),
    default=Output.TEXT.value,
    help="text for a person, json for one document on standard output",
)


def files_option(*, required: bool) -> Callable[[Command], Command]:
    """`-f FILE`, as often as there are files."""
    return click.option(
        "-f",
        "--file",
        "files",
        type=click.Path(exists=True, path_type=Path),
        multiple=True,
        required=required,
        help="YAML file, or folder of files; may be given several times",
    )


class DurationType(click.ParamType[timedelta]):
    """`90s`, `15m`, `1h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """A timedelta; a usage error for anything that is not a duration."""
        try:
            return parsed(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def cluster_options(command: Command) -> Command:
    """`NAME -n NAMESPACE`: the ClusterVersion and BKECluster of that name."""
    command = click.option("-n", "--namespace", "kube_namespace", required=True, help="its Kubernetes namespace")(
        command
    )
    return click.argument("name")(command)


def cluster_key(name: str, kube_namespace: str) -> ClusterKey:
    """The cluster that the options name."""
    return ClusterKey(kube_namespace=kube_namespace, name=name)
