"""Commands about the room that a home takes: upkeep, drop."""

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

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(upkeep)
    group = typer.Typer(
        help="Remove a category, an application or a savepoint for good.", no_args_is_help=True
    )
    group.command("category")(drop_category)
    group.command("app")(drop_app)
    group.command("savepoint")(drop_savepoint)
    app.add_typer(group, name="drop")


def upkeep(
    home: HomeOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove what is older than the retention and needed by nobody, and files of failed tasks.

    Every run does this by itself. Options retention, output_retention and dead_letter_retention of the
    applications that read or write a category say how long it is kept; 'forever' keeps it.
    """
    report = api.upkeep(home, dry_run=dry_run)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
        return
    table = Table("category", "kind", "commits", "files", "size", "kept for", "oldest commit held back by")
    for one in report.categories:
        before, after = one.before, one.after
        table.add_row(
            one.category,
            one.kind,
            _change(f"{before.commits:,}", f"{after.commits:,}"),
            _change(f"{before.files:,}", f"{after.files:,}"),
            _change(size_text(before.bytes), size_text(after.bytes)),
            one.kept_for,
            one.trouble or _held(one.holder),
        )
    print_table(table)
    if report.swept:
        typer.echo(f"{len(report.swept)} files of failed or killed processes removed elsewhere")
    folded = sum(one.folded for one in report.tables)
    if folded:
        typer.echo(f"{folded:,} old records of commits folded, of tables")
    bad_tables = [found for found in report.tables if found.trouble is not None]
    for found in bad_tables:
        typer.echo(f"table {found.folder}: {found.trouble}", err=True)
    for trouble in report.troubles:
        typer.echo(f"nothing was retired: {trouble}", err=True)
    if report.troubles or bad_tables or any(one.trouble for one in report.categories):
        raise typer.Exit(1)


def drop_category(
    name: Annotated[str, typer.Argument(help="The category.", show_default=False)],
    home: HomeOption = None,
    yes: Yes = False,
) -> None:
    """Remove a category with all its rows; refused while an application reads or writes it."""
    _confirm(api.drop_category(name, home, dry_run=True), yes)
    api.drop_category(name, home)


def drop_app(
    name: Annotated[str, typer.Argument(help="The application.", show_default=False)],
    home: HomeOption = None,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep the categories of its tables, and dead letters.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Remove a stopped application, its checkpoints, and the categories that it writes.

    Refused while it runs, or while another application reads or writes one of the categories.
    """
    _confirm(api.drop_application(name, home, keep_data=keep_data, dry_run=True), yes)
    api.drop_application(name, home, keep_data=keep_data)


def drop_savepoint(
    name: Annotated[str, typer.Argument(help="The savepoint.", show_default=False)],
    home: HomeOption = None,
    yes: Yes = False,
) -> None:
    """Remove a savepoint; applications that have begun from it are not concerned."""
    found = {one.name: one for one in api.savepoints(home=home)}.get(name)
    if found is not None:
        typer.echo(f"savepoint {name} of {found.application}: {size_text(found.state_bytes)}")
        typer.echo(f"and what the log does not have any more of {size_text(found.row_bytes)} of rows")
        if not yes:
            typer.confirm("Remove this for good?", abort=True)
    api.drop_savepoint(name, home)


def _confirm(found: api.Dropped, yes: bool) -> None:
    """Say what goes, and ask."""
    if found.application is not None:
        typer.echo(f"application {found.application}: its plan, checkpoints, metrics and logs")
    for category, size in found.categories.items():
        typer.echo(f"category {category}: {size_text(size)}")
    for kept in found.kept:
        typer.echo(f"stays: {kept}")
    if not yes:
        typer.confirm("Remove this for good?", abort=True)


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _held(holder: api.Holder | None) -> str:
    if holder is None:
        return ""
    who = f"commit {holder.commit:,} needed by {holder.application}/{holder.query}"
    if holder.since is None:
        return f"{who}, which has not run yet"
    return f"{who} since {datetime.fromtimestamp(holder.since, UTC):%Y-%m-%d %H:%M:%SZ}"
