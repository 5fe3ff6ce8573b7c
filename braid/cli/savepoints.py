"""Commands about savepoints: savepoint, savepoints."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from braid import api
from braid.cli.consoles import print_table
from braid.cli.data import HomeOption, size_text
from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.running import MasterOption, SparkOption, pairs


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(savepoint)
    app.command()(savepoints)


def savepoint(
    application: Annotated[
        str, typer.Argument(help="An application, running or stopped.", show_default=False)
    ],
    name: Annotated[
        str | None, typer.Option(help="Of the savepoint.", show_default="the application's, with the time")
    ] = None,
    home: HomeOption = None,
    master: MasterOption = None,
    spark: SparkOption = None,
) -> None:
    """Take a savepoint: what it takes to go on from here, with all rows in flight, now or later.

    `braid run PROGRAM --from SAVEPOINT` begins from it. It keeps the rows that it needs, whatever retention
    removes from the log, until `braid drop savepoint`.
    """
    with interruptible():
        try:
            done = api.savepoint(
                application,
                home,
                name=name,
                master=master,
                settings=pairs(spark, "--spark"),
                on_phase=lambda phase: typer.echo(phase, err=True),
            )
        except Interrupted as interrupt:
            raise typer.Exit(interrupt.code) from None
    typer.echo(
        f"savepoint {done.name}: {done.pending:,} rows wait for others, {size_text(done.state_bytes)}, "
        f"and {size_text(done.row_bytes)} of the log"
    )


def savepoints(
    application: Annotated[
        str | None, typer.Argument(help="Only those of an application.", show_default=False)
    ] = None,
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List savepoints: rows that wait for others, the size of states, and of the rows that they keep."""
    found = api.savepoints(application, home)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    table = Table("savepoint", "application", "taken", "waiting", "state", "rows of the log")
    for one in found:
        table.add_row(
            one.name,
            one.application,
            datetime.fromtimestamp(one.taken, UTC).strftime("%Y-%m-%d %H:%M:%SZ"),
            f"{one.pending:,}",
            size_text(one.state_bytes),
            size_text(one.row_bytes),
        )
    print_table(table)
