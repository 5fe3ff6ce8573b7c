"""The `braid` command: one module per group of commands, each thin over `braid.api`."""

from __future__ import annotations

import typer

from braid.cli import data, language, lookup, running
from braid.cli.errors import BraidGroup

app = typer.Typer(
    name="braid",
    help="Streaming joins as a service, on Apache Spark.",
    cls=BraidGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for group in (language, running, data, lookup):
    group.register(app)
