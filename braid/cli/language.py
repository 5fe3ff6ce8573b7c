"""Commands about programs: check, explain, diff. None of them runs anything."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from braid import api
from braid.cli.data import HomeOption
from braid.core.errors import BraidError

UNREADABLE = 2
"""Exit code of `diff` when one of the programs does not compile; 1 means that the update is refused."""

Program = Annotated[Path, typer.Argument(help="A PQL program.", show_default=False)]


class Format(StrEnum):
    """The forms of `braid explain`."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    PQL = "pql"
    PHYSICAL = "physical"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(check)
    app.command()(explain)
    app.command()(diff)


def check(program: Program) -> None:
    """Compile a program and report everything that is wrong with it."""
    compiled = api.compile_file(program)
    _warn(compiled)
    query = compiled.query
    counts = ", ".join(
        f"{count} {word}{'' if count == 1 else 's'}"
        for count, word in (
            (len(query.inputs), "input"),
            (compiled.joins, "join"),
            (len(query.tables), "table"),
        )
    )
    typer.echo(f"{query.application.name}: ok, {counts}")


def explain(
    program: Program,
    form: Annotated[Format, typer.Option("--format", help="How to show the plan.")] = Format.TEXT,
) -> None:
    """Show how a program will run."""
    compiled = api.compile_file(program)
    _warn(compiled)
    typer.echo(api.explain(compiled, form.value), nl=False)


def diff(
    programs: Annotated[
        list[Path],
        typer.Argument(
            help="OLD NEW: two programs, or plans as JSON. NEW alone is compared with what its application "
            "runs, or ran last, in the home.",
            metavar="OLD NEW | NEW",
            show_default=False,
        ),
    ],
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what an update changes: exit code 0 kept, 3 replay needed, 1 refused, 2 does not compile."""
    if len(programs) > 2 or (len(programs) == 2 and home is not None):
        raise typer.BadParameter("give two programs, or one and the home in which the other runs")
    try:
        new = api.load_plan(programs[-1])
        old = api.load_plan(programs[0]) if len(programs) == 2 else api.running_plan(new.application, home)
        found = api.diff(old, new)
        if len(programs) == 1 and not as_json:
            for name, value in api.running_overrides(new.application, home).items():
                typer.echo(
                    f"note: {name} = {value} was set at the last start, and is compared with the program"
                )
    except BraidError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(UNREADABLE) from None
    text = json.dumps(api.diff_json(found), indent=2) + "\n" if as_json else api.diff_text(found)
    typer.echo(text, nl=False)
    raise typer.Exit(found.verdict.exit_code)


def _warn(compiled: api.Compiled) -> None:
    for warning in compiled.warnings:
        typer.echo(warning, err=True)
