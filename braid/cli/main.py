"""The `braid` command: one module per group of commands, each thin over `braid.api`."""

from __future__ import annotations

from typing import Annotated

import typer

from braid import __version__
from braid.cli import (
    data,
    deploying,
    language,
    logins,
    looking,
    lookup,
    rendering,
    repo,
    running,
    savepoints,
    serving,
    top,
    upkeep,
)
from braid.cli.errors import BraidGroup

app = typer.Typer(
    name="braid",
    help="Streaming joins as a service, on Apache Spark.",
    cls=BraidGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"braid {__version__}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Streaming joins as a service, on Apache Spark."""


GROUPS = (
    language,
    serving,
    rendering,
    logins,
    deploying,
    repo,
    looking,
    top,
    running,
    savepoints,
    data,
    lookup,
    upkeep,
)
"""In the order of `braid --help`."""

for group in GROUPS:
    group.register(app)
