"""Commands about lookup tables: load, get, tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from braid import api
from braid.cli.consoles import print_table
from braid.cli.data import HomeOption
from braid.core.config import parse_duration
from braid.core.errors import ConfigError
from braid.core.json_rows import json_rows

TableArgument = Annotated[str, typer.Argument(help="A lookup table.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Keyed tables for lookup joins.", no_args_is_help=True)
    group.command()(load)
    group.command()(get)
    group.command()(tables)
    app.add_typer(group, name="lookup")


def load(
    table: TableArgument,
    file: Annotated[Path, typer.Argument(help="Parquet, CSV or JSON lines.", show_default=False)],
    key: Annotated[str, typer.Option(help="Key columns, with commas between.", show_default=False)],
    ttl: Annotated[
        str | None,
        typer.Option(help="Time after which rows are gone, such as '7 days'.", show_default=False),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove rows that are not in the file, at once.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """Load a file into a lookup table, which is made if it does not exist."""
    names = [name.strip() for name in key.split(",") if name.strip()]
    found = api.load_lookup(table, file, names, home, ttl=_duration(ttl), replace=replace)
    typer.echo(f"{table}: {found.rows:,} rows {'in all' if found.replaced else 'written'}", err=True)


def get(
    table: TableArgument,
    key: Annotated[
        list[str], typer.Argument(help="A value per key column, in the key's order.", show_default=False)
    ],
    home: HomeOption = None,
) -> None:
    """Print the row of a key as JSON; exit code 1 if there is none."""
    typer.echo(json_rows(api.get_lookup(table, key, home))[0].as_py())


def tables(home: HomeOption = None) -> None:
    """List lookup tables with their columns, sizes and times to live."""
    listing = Table("table", "key", "value", "rows", "size", "ttl")
    for info in api.lookup_tables(home):
        columns = (
            ", ".join(f"{field.name} {field.type}" for field in schema) for schema in (info.key, info.value)
        )
        ttl = "" if info.ttl is None else f"{info.ttl / 1e6:,.0f} s"
        listing.add_row(info.name, *columns, f"~{info.rows:,}", f"{info.bytes / 1e6:,.1f} MB", ttl)
    print_table(listing)


def _duration(text: str | None) -> int | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise ConfigError(str(error), where="--ttl") from None
