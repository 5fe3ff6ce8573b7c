"""What an engine's workers need: looking up columns for a batch, and writing a batch exactly once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from braid.core.errors import SchemaError
from braid.stores.lookup.keys import plain
from braid.stores.lookup.store import LookupStore
from braid.stores.lookup.table import LookupTable
from braid.stores.lookup.writer import Upserted

_OPEN_TABLES = 16


def enrich(
    home_root: str | Path,
    table: str,
    batch: pa.RecordBatch,
    keys: Mapping[str, pa.Array],
    columns: Mapping[str, str],
    *,
    inner: bool,
    now_us: int,
) -> pa.RecordBatch:
    """A batch with columns of a lookup table beside it. The table stays open in this process.

    Parameters
    ----------
    home_root, table
        The table; a home that this process sees.
    batch
        Rows to look up something for.
    keys
        Per key column of the table, what it must equal, one value per row of the batch.
    columns
        Per column to add, the key or value column of the table that it is.
    inner
        Whether to drop the rows whose key is not there; else they get NULLs.
    now_us
        The wall clock, by which rows of the table get too old.
    """
    key_names = list(keys)
    wanted = tuple(dict.fromkeys(name for name in columns.values() if name not in key_names))
    opened = _opened(str(home_root), table, wanted, os.getpid())
    found = opened.get(keys, now_us)
    mask = pa.array(found.found)
    kinds = opened.settings.key
    for name, column in columns.items():
        if name in batch.schema.names:
            raise SchemaError(
                f"the batch has a column {name!r} already",
                where=f"lookup table {table}",
                hint="give the looked up column another name",
            )
        if column in key_names:
            kind = kinds.field(column).type
            array = pc.if_else(mask, plain(keys[column]).cast(kind, safe=False), pa.scalar(None, kind))
        else:
            array = found.values.column(column).combine_chunks()
        batch = batch.append_column(name, array)
    return batch.filter(mask) if inner else batch


def apply(
    home_root: str | Path,
    table: str,
    batches: Sequence[pa.RecordBatch] | pa.Table,
    *,
    writer: str,
    batch_id: int,
    now_us: int,
    time_column: str | None = None,
) -> Upserted:
    """Write one micro-batch into a table, all or nothing; a replay changes nothing.

    The table must exist (`LookupStore.create`) and is closed again. A process that writes often keeps a
    `LookupTable` instead, and calls its `upsert`.

    Parameters
    ----------
    home_root, table
        The table.
    batches
        All rows of the micro-batch, in order of arrival.
    writer, batch_id
        Who writes, such as application and stage, and the number of the micro-batch.
    now_us
        The wall clock, from which the rows' time to live counts.
    time_column
        A column with event times, which decide between rows of one key. It is stored only if the table has
        a column of that name.
    """
    if not isinstance(batches, pa.Table):
        if not batches:
            return Upserted(True)
        batches = pa.Table.from_batches(batches)
    with LookupStore(home_root).open(table) as opened:
        times = None
        if time_column is not None:
            if time_column not in batches.schema.names:
                raise SchemaError(
                    f"there is no column {time_column!r} with event times",
                    where=f"lookup table {table}",
                    hint=f"columns of the rows: {', '.join(batches.schema.names)}",
                )
            times = batches.column(time_column)
            settings = opened.settings
            if time_column not in [*settings.key.names, *settings.value.names]:
                batches = batches.drop_columns([time_column])
        return opened.upsert(batches, writer=writer, batch_id=batch_id, now_us=now_us, times=times)


@lru_cache(_OPEN_TABLES)
def _opened(home_root: str, table: str, columns: tuple[str, ...], process: int) -> LookupTable:
    """Tables stay open, per process: files that were opened before a fork must not be used after it."""
    return LookupStore(home_root).open(table, columns)
