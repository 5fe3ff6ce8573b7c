"""Rows as JSON texts, column by column: for dead letters and for printing categories."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_ESCAPES = [("\\", "\\\\"), ('"', '\\"'), *((chr(code), f"\\u{code:04x}") for code in range(0x20))]


def json_rows(batch: pa.RecordBatch, columns: Sequence[str] | None = None) -> pa.Array:
    """One JSON object per row; timestamps are ISO-8601 in UTC with microseconds, binary is hexadecimal."""
    parts: list[pa.Array | str] = []
    for position, name in enumerate(batch.schema.names if columns is None else columns):
        parts += [("{" if position == 0 else ",") + json.dumps(name, ensure_ascii=False) + ":"]
        parts += [json_values(batch.column(name))]
    if not parts:
        return pa.repeat("{}", batch.num_rows)
    return pc.binary_join_element_wise(*parts, "}", "")


def json_values(column: pa.Array) -> pa.Array:
    """The JSON text of each value."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        text = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        # JSON has no NaN and no infinities.
        text = pc.if_else(pc.is_finite(column), column.cast(pa.string()), None)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = _quoted(_escaped(column.cast(pa.string())))
    elif pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", tz=kind.tz))
        text = _quoted(pc.strftime(micros, format="%Y-%m-%dT%H:%M:%S" + ("Z" if kind.tz else "")))
    elif pa.types.is_date(kind):
        text = _quoted(column.cast(pa.string()))
    else:
        # Nested values are rare, and Arrow has no JSON writer.
        text = pa.array([json.dumps(value, default=_plain) for value in column.to_pylist()], pa.string())
    return pc.coalesce(text, pa.scalar("null"))


def _escaped(text: pa.Array) -> pa.Array:
    for character, escape in _ESCAPES:
        if pc.any(pc.match_substring(text, character)).as_py():
            text = pc.replace_substring(text, character, escape)
    return text


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
