"""Commands about running applications: run, status."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from braid import api
from braid.cli.data import HomeOption
from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.monitor import Monitor
from braid.core.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(run)
    app.command()(status)


def run(
    program: Annotated[Path, typer.Argument(help="A PQL program, or a plan as JSON.", show_default=False)],
    home: HomeOption = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Work off everything available, close all windows, and end.")
    ] = False,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="option=value; overrides the program.", show_default=False),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            help="Where Spark runs; local[*] by default. With spark://HOST:PORT, packages are shipped, and "
            "the home must be a folder that all machines share.",
            show_default=False,
        ),
    ] = None,
    spark: Annotated[
        list[str] | None, typer.Option("--spark", help="spark.setting=value.", show_default=False)
    ] = None,
) -> None:
    """Run an application in the foreground; Ctrl-C stops it, and the next start goes on from there.

    A second Ctrl-C ends the process at once, which loses nothing either. The exit code is 0 if the
    application was drained or stopped, 1 if it failed, and 128 and the signal's number if it was interrupted
    while starting.
    """
    monitor = Monitor(sys.stderr)
    handle: api.Application | None = None
    with interruptible():
        try:
            handle = api.run(
                program,
                home,
                options=_pairs(assignments, "--set"),
                drain=drain,
                master=master,
                settings=_pairs(spark, "--spark"),
                on_progress=monitor.progress,
                on_phase=monitor.phase,
            )
            with monitor.showing(handle):
                handle.wait()
        except Interrupted as interrupt:
            if handle is None:
                typer.echo("stopped while starting", err=True)
                raise typer.Exit(interrupt.code) from None
            handle.stop()
            handle.wait()
    typer.echo(monitor.summary(handle))


def status(
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the applications of a home, running and stopped, with their last metrics."""
    found = api.status(home)
    if as_json:
        typer.echo(json.dumps([value.model_dump(mode="json") for value in found], indent=2))
        return
    table = Table(
        "application",
        "state",
        "stage",
        "what",
        "batch",
        "rows in",
        "rows out",
        "match rate",
        "held up",
        "updated",
    )
    for value in found:
        for number, (name, stage) in enumerate(value.stages.items()):
            last = stage.last
            rate = None if last is None else last.match_rate
            table.add_row(
                value.application if number == 0 else "",
                value.state if number == 0 else "",
                name,
                stage.what,
                "" if last is None else str(last.batch),
                f"{stage.totals.rows_in:,}",
                f"{stage.totals.rows_out:,}",
                "" if rate is None else f"{rate:.2%}",
                stage.held_up or "",
                datetime.fromtimestamp(value.updated, UTC).strftime("%H:%M:%SZ") if number == 0 else "",
            )
        if value.error:
            table.add_row("", "", value.error)
        for trouble in value.troubles:
            table.add_row("", "", f"upkeep of {trouble}")
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _pairs(assignments: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in assignments or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{option} {text!r} has no value", hint=f"write {option} name=value")
        pairs[name.strip()] = value.strip()
    return pairs
