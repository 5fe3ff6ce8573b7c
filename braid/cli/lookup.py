"""Commands about lookup tables: load, get, tables."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from braid.cli.data import HomeOption
from braid.core.config import parse_duration
from braid.core.errors import ConfigError, SchemaError, StoreError
from braid.core.json_rows import json_rows
from braid.home.paths import Home
from braid.stores.lookup import LookupStore, LookupTable, load_file

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
    found = load_file(
        _store(home),
        file,
        table,
        [name.strip() for name in key.split(",") if name.strip()],
        ttl=_duration(ttl),
        replace=replace,
        now_us=_now_us(),
    )
    typer.echo(f"{table}: {found.rows:,} rows {'in all' if found.replaced else 'written'}", err=True)


def get(
    table: TableArgument,
    key: Annotated[
        list[str], typer.Argument(help="A value per key column, in the key's order.", show_default=False)
    ],
    home: HomeOption = None,
) -> None:
    """Print the row of a key as JSON; exit code 1 if there is none."""
    with _store(home).open(table) as opened:
        keys = _key(opened, key)
        found = opened.get(keys, _now_us())
        if not found.found[0]:
            raise StoreError(
                f"there is no row for ({', '.join(key)})",
                where=f"lookup table {table}",
                hint="it was never written, or it is older than the table's ttl",
            )
        row = pa.RecordBatch.from_arrays(
            [*keys.columns, *(column.combine_chunks() for column in found.values.columns)],
            schema=pa.schema([*keys.schema, *found.values.schema]),
        )
    typer.echo(json_rows(row)[0].as_py())


def tables(home: HomeOption = None) -> None:
    """List lookup tables with their columns, sizes and times to live."""
    listing = Table("table", "key", "value", "rows", "size", "ttl")
    store = _store(home)
    for name in store.tables():
        with store.open(name) as opened:
            settings, (rows, size) = opened.settings, opened.size
        columns = (
            ", ".join(f"{field.name} {field.type}" for field in schema)
            for schema in (settings.key, settings.value)
        )
        ttl = "" if settings.ttl is None else f"{settings.ttl / 1e6:,.0f} s"
        listing.add_row(name, *columns, f"~{rows:,}", f"{size / 1e6:,.1f} MB", ttl)
    Console(width=None if sys.stdout.isatty() else 200).print(listing)


def _store(home: Path | None) -> LookupStore:
    return LookupStore(Home.at(home).root)


def _key(table: LookupTable, texts: list[str]) -> pa.RecordBatch:
    """Key columns of one row, from texts."""
    schema = table.settings.key
    if len(texts) != len(schema):
        raise SchemaError(
            f"the key has {len(schema)} columns, not {len(texts)}",
            where=f"lookup table {table.name}",
            hint="give a value for each of: " + ", ".join(f"{f.name} {f.type}" for f in schema),
        )
    columns = []
    for text, field in zip(texts, schema, strict=True):
        try:
            value = bytes.fromhex(text) if _is_bytes(field.type) else text
            columns.append(pa.array([value]).cast(field.type))
        except (ValueError, NotImplementedError) as error:
            raise SchemaError(
                f"{text!r} is not a value of key column {field.name!r}, which is {field.type}",
                where=f"lookup table {table.name}",
                hint="binary is written in hexadecimal digits, times as 2026-01-31T12:00:00Z",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


def _duration(text: str | None) -> int | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise ConfigError(str(error), where="--ttl") from None


def _now_us() -> int:
    return time.time_ns() // 1000
