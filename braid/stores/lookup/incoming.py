"""Rows on their way into a table: columns by name and type, keys encoded, the newest row of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from braid.core.errors import SchemaError
from braid.stores.lookup.database import Database
from braid.stores.lookup.keys import KeyCodec, Keys, family, plain
from braid.stores.lookup.rows import Ints, Mask
from braid.stores.lookup.settings import Settings
from braid.stores.lookup.values import NEVER, ValueCodec

Rows: TypeAlias = pa.RecordBatch | pa.Table
_WIDENS = {("integer", "float"), ("integer", "decimal")}


@dataclass(frozen=True)
class Incoming:
    """A batch of rows in the table's types; `times` has `NEVER` for a row without an event time."""

    settings: Settings
    keys: Keys
    columns: list[pa.Array]
    times: Ints

    @classmethod
    def of(cls, settings: Settings, rows: Rows, times: pa.Array | None, where: str) -> Incoming:
        """Check rows against the table's columns; value columns that are missing are NULL."""
        known = [*settings.key.names, *settings.value.names]
        names = rows.schema.names
        unknown = [name for name in names if name not in known]
        missing = [name for name in settings.key.names if name not in names]
        if unknown or missing or len(set(names)) < len(names):
            raise SchemaError(
                f"there is no column {unknown[0]!r}"
                if unknown
                else f"key column {missing[0]!r} is missing"
                if missing
                else "a column occurs twice",
                where=where,
                hint=f"key columns: {', '.join(settings.key.names)}; value columns: "
                f"{', '.join(settings.value.names) or 'none'}",
            )
        key = [_cast(rows.column(field.name), field, where) for field in settings.key]
        value = [
            _cast(rows.column(field.name), field, where)
            if field.name in names
            else pa.nulls(rows.num_rows, field.type)
            for field in settings.value
        ]
        return cls(settings, KeyCodec(settings.key).encode(key), value, _times(times, rows.num_rows, where))

    def newest(self) -> Mask:
        """Which keys stay: the latest event time of each wins, and then the last to arrive."""
        code = self.keys.encoded.dictionary_encode().indices.to_numpy()
        # Equal keys are in order of arrival, and both sorts are stable.
        order = np.lexsort((self.times[self.keys.rows], code))
        last: Mask = np.ones(len(order), np.bool_)
        last[:-1] = code[order[1:]] != code[order[:-1]]
        stays: Mask = np.zeros(len(order), np.bool_)
        stays[order[last]] = True
        return stays

    def store(self, database: Database, keys: Mask, now_us: int, records: Mapping[bytes, int]) -> None:
        """Write the rows of some keys, and records with them."""
        rows = self.keys.rows[keys]
        columns = [column.take(pa.array(rows)) for column in self.columns]
        encoded = ValueCodec(self.settings.value).encode(columns, self.times[rows], now_us)
        database.put(self.keys.encoded.filter(pa.array(keys)), encoded, records)


def _cast(column: pa.Array | pa.ChunkedArray, field: pa.Field, where: str) -> pa.Array:
    array = plain(column)
    if array.type == field.type:
        return array
    families = family(array.type), family(field.type)
    if families[0] == families[1] or families in _WIDENS or pa.types.is_null(array.type):
        try:
            return array.cast(field.type)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"a value of column {field.name!r} is not {field.type}: {error}",
                where=where,
                hint="cast the column before it is written",
            ) from error
    raise SchemaError(
        f"column {field.name!r} is {field.type}, but the rows have {array.type}",
        where=where,
        hint=f"cast it to {field.type}",
    )


def _times(times: pa.Array | pa.ChunkedArray | None, rows: int, where: str) -> Ints:
    if times is None:
        return np.full(rows, NEVER, np.int64)
    array = plain(times)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    if not pa.types.is_int64(array.type) or len(array) != rows:
        raise SchemaError(
            f"{len(array)} event times of type {array.type} for {rows} rows",
            where=where,
            hint="pass one timestamp, or int64 of microseconds, per row",
        )
    found: Ints = array.fill_null(NEVER).to_numpy()
    return found
