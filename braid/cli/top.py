"""`braid top`: all applications, with what they achieve and use, again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from braid import api
from braid.cli.consoles import PlainConsole, print_table
from braid.cli.data import HomeOption, size_text
from braid.cli.figures import seconds_words
from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.remote import ServerOption, found_service
from braid.home.top import Figures, ProcessFigures, Top

_NAME_WIDTH = 40
"""Columns that a name may take; what is longer is cut."""


class Column(StrEnum):
    """What lines are sorted by."""

    APPLICATION = "application"
    STATE = "state"
    ROWS_IN = "in"
    ROWS_OUT = "out"
    BACKLOG = "backlog"
    DELAY = "delay"
    MATCH_RATE = "match"
    CPU = "cpu"
    MEMORY = "memory"
    RESTARTS = "restarts"


_KEYS: Mapping[Column, Callable[[Figures, ProcessFigures | None], float | None]] = {
    Column.ROWS_IN: lambda one, process: one.rows_in,
    Column.ROWS_OUT: lambda one, process: one.rows_out,
    Column.BACKLOG: lambda one, process: one.backlog,
    Column.DELAY: lambda one, process: one.delay,
    Column.MATCH_RATE: lambda one, process: one.match_rate,
    Column.CPU: lambda one, process: None if process is None else process.cpu,
    Column.MEMORY: lambda one, process: None if process is None else process.memory,
    Column.RESTARTS: lambda one, process: one.restarts,
}
"""What is sorted by size, the largest first, and what is not known last."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(top)


def top(
    home: HomeOption = None,
    server: ServerOption = None,
    sort: Annotated[
        Column, typer.Option("--sort", help="By which column; figures with the largest first.")
    ] = Column.APPLICATION,
    once: Annotated[bool, typer.Option("--once", help="Print one table, and end.")] = False,
    every: Annotated[float, typer.Option("--every", min=1.0, help="Seconds between two looks.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON once, and end.")] = False,
) -> None:
    """Show what all applications achieve and use, live on a terminal, once elsewhere.

    Rows per second are those of the last minute: read of the inputs, and stored. The backlog is what is
    published and not read; the delay is how far the stream time of the input that is behind most is behind
    the clock; the match rate is that of the left rows decided of late. CPU (100% is one core) and memory are
    those of the driver with all that it has started; what applications of a pool share is shown once.
    """
    with interruptible():
        try:
            looks = _looks(home, server)
            if as_json:
                typer.echo(next(looks).model_dump_json(indent=2))
            elif once or not sys.stdout.isatty():
                print_table(table(next(looks), sort))
            else:
                _show(looks, sort, every)
        except Interrupted:
            return


def _show(looks: Iterator[Top], sort: Column, every: float) -> None:
    with Live(console=PlainConsole(), auto_refresh=False, screen=True) as live:
        for found in looks:
            live.update(table(found, sort), refresh=True)
            time.sleep(every)


def _looks(home: Path | None, server: str | None) -> Iterator[Top]:
    client = found_service(home, server)
    if client is None:
        yield from api.top(home)
        return
    with client:
        while True:
            yield client.top()


def table(found: Top, sort: Column) -> Table:
    """What there is to say, a line for each application, and one for each process that several share."""
    alone = {
        one.applications[0]: one for one in found.processes if len(one.applications) == 1 and not one.pool
    }
    shown = Table()
    shown.add_column("application", no_wrap=True, max_width=_NAME_WIDTH)
    shown.add_column("state", no_wrap=True)
    for name in ("version", "in/s", "out/s", "backlog", "delay", "match", "CPU %", "memory", "restarts"):
        shown.add_column(name, no_wrap=True, justify="right")
    shown.add_column("pool", no_wrap=True, max_width=_NAME_WIDTH)
    for one in ordered(found.applications, alone, sort):
        process = alone.get(one.application)
        shared = process is None and one.pid is not None and bool(found.processes)
        shown.add_row(
            one.application,
            one.state,
            "" if one.version is None else str(one.version),
            _rate(one.rows_in),
            _rate(one.rows_out),
            "" if one.backlog is None else f"{'>' * one.more_behind}{one.backlog:,}",
            "" if one.delay is None else seconds_words(round(one.delay * 1000)),
            "" if one.match_rate is None else f"{one.match_rate:.1%}",
            "shared" if shared else _cpu(process),
            "shared" if shared else _memory(process),
            str(one.restarts or ""),
            one.pool or "",
        )
    for process in found.processes:
        if process in alone.values():
            continue
        what = f"pool {process.pool}" if process.pool else f"process {process.pid}"
        count = len(process.applications)
        held = f"{count} application{'s' * (count > 1)}"
        shown.add_row(what, held, *[""] * 6, _cpu(process), _memory(process), "", process.pool or "")
    return shown


def ordered(
    applications: list[Figures], processes: Mapping[str, ProcessFigures], sort: Column
) -> list[Figures]:
    """Applications, sorted."""
    if sort is Column.APPLICATION:
        return sorted(applications, key=lambda one: one.application)
    if sort is Column.STATE:
        return sorted(applications, key=lambda one: (one.state, one.application))

    def size(one: Figures) -> tuple[float, str]:
        value = _KEYS[sort](one, processes.get(one.application))
        return -(-1.0 if value is None else value), one.application

    return sorted(applications, key=size)


def _rate(rows: float | None) -> str:
    return "" if rows is None else f"{rows:,.0f}" if rows >= 10 or rows == 0 else f"{rows:.1f}"


def _cpu(process: ProcessFigures | None) -> str:
    return "" if process is None or process.cpu is None else f"{process.cpu * 100:.0f}"


def _memory(process: ProcessFigures | None) -> str:
    return "" if process is None or process.memory is None else size_text(process.memory)
