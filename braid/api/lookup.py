"""Lookup tables: load files into them, look a row up, list them. Applications write them with LASER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from braid.core.errors import SchemaError, StoreError
from braid.core.times import now_micros
from braid.home.paths import Home, HomeLike
from braid.stores.lookup import LookupStore, LookupTable, load_file
from braid.stores.lookup.files import Loaded


@dataclass(frozen=True)
class LookupInfo:
    """What `braid lookup tables` shows of a table.

    Parameters
    ----------
    name
        The table.
    key, value
        Columns of its key, and the other ones.
    rows, bytes
        How large it is; rows are estimated.
    ttl
        Age in microseconds at which rows are gone; None if they stay.
    """

    name: str
    key: pa.Schema
    value: pa.Schema
    rows: int
    bytes: int
    ttl: int | None


def load_lookup(
    table: str,
    file: str | Path,
    key: Sequence[str],
    home: HomeLike = None,
    *,
    ttl: int | None = None,
    replace: bool = False,
) -> Loaded:
    """Load a file of Parquet, CSV or JSON lines into a lookup table, which is made if it does not exist.

    Parameters
    ----------
    table, home
        The table.
    file
        What to load.
    key
        Key columns, in order.
    ttl
        Age in microseconds at which rows are gone.
    replace
        Whether rows that are not in the file are removed, at once.
    """
    store = _store(home)
    return load_file(store, Path(file), table, list(key), ttl=ttl, replace=replace, now_us=now_micros())


def get_lookup(table: str, key: Sequence[object], home: HomeLike = None) -> pa.RecordBatch:
    """The row of a key, as a batch of one; raises `StoreError` if there is none.

    Parameters
    ----------
    table, home
        The table.
    key
        A value per key column, in the key's order. Texts are converted: times as `2026-01-31T12:00:00Z`,
        binary in hexadecimal digits.
    """
    with _store(home).open(table) as opened:
        keys = _key(opened, key)
        found = opened.get(keys, now_micros())
        if not found.found[0]:
            raise StoreError(
                f"there is no row for ({', '.join(map(str, key))})",
                where=f"lookup table {table}",
                hint="it was never written, or it is older than the table's ttl",
            )
        return pa.RecordBatch.from_arrays(
            [*keys.columns, *(column.combine_chunks() for column in found.values.columns)],
            schema=pa.schema([*keys.schema, *found.values.schema]),
        )


def lookup_tables(home: HomeLike = None) -> list[LookupInfo]:
    """All lookup tables of a home, by name."""
    store = _store(home)
    listing = []
    for name in store.tables():
        with store.open(name) as opened:
            settings, (rows, size) = opened.settings, opened.size
        listing.append(LookupInfo(name, settings.key, settings.value, rows, size, settings.ttl))
    return listing


def _store(home: HomeLike) -> LookupStore:
    return LookupStore(Home.at(home).root)


def _key(table: LookupTable, values: Sequence[object]) -> pa.RecordBatch:
    """Key columns of one row."""
    schema = table.settings.key
    if len(values) != len(schema):
        raise SchemaError(
            f"the key has {len(schema)} columns, not {len(values)}",
            where=f"lookup table {table.name}",
            hint="give a value for each of: " + ", ".join(f"{f.name} {f.type}" for f in schema),
        )
    columns = []
    for given, field in zip(values, schema, strict=True):
        try:
            value = bytes.fromhex(given) if isinstance(given, str) and _is_bytes(field.type) else given
            columns.append(pa.array([value]).cast(field.type))
        except (ValueError, NotImplementedError) as error:
            raise SchemaError(
                f"{given!r} is not a value of key column {field.name!r}, which is {field.type}",
                where=f"lookup table {table.name}",
                hint="binary is written in hexadecimal digits, times as 2026-01-31T12:00:00Z",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )
