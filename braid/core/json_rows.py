"""Rows as JSON texts, column by column: for dead letters and for printing categories.

JSON has no NaN and no infinities: they are the texts "NaN", "Infinity" and "-Infinity", as in the JSON form
of Protocol Buffers, which inputs read back as numbers. A map is an object, with its keys as texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.times import YEAR_1, YEAR_9999_END

_ESCAPES = [("\\", "\\\\"), ('"', '\\"'), *((chr(code), f"\\u{code:04x}") for code in range(0x20))]


def json_rows(batch: pa.RecordBatch, columns: Sequence[str] | None = None) -> pa.Array:
    """One JSON object per row; timestamps are ISO-8601 in UTC with microseconds, binary is hexadecimal."""
    names = batch.schema.names if columns is None else columns
    return _objects({name: batch.column(name) for name in names}, batch.num_rows)


def json_values(column: pa.Array) -> pa.Array:
    """The JSON text of each value."""
    return pc.coalesce(_texts(column), pa.scalar("null"))


def _texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value; NULL where there is none."""
    kind, t = column.type, pa.types
    if t.is_dictionary(kind):
        return _texts(column.dictionary_decode())
    if t.is_boolean(kind) or t.is_integer(kind) or t.is_decimal(kind):
        return column.cast(pa.string())
    if t.is_floating(kind):
        return _numbers(column)
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        return _quoted(_escaped(column.cast(pa.string())))
    if t.is_timestamp(kind):
        return _times(column.cast(pa.timestamp("us", tz=kind.tz), safe=False))
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind):
        return _quoted(_hexadecimal(column.cast(pa.binary())))
    if t.is_map(kind):
        return _maps(column)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return _joined(column, json_values(column.flatten()), "[]")
    if t.is_struct(kind):
        fields = {field.name: column.field(index) for index, field in enumerate(kind)}
        return _where_valid(column, _objects(fields, len(column)))
    return _quoted(column.cast(pa.string()))


def _objects(columns: dict[str, pa.Array], rows: int) -> pa.Array:
    """One object per row."""
    parts: list[pa.Array | str] = []
    for position, (name, column) in enumerate(columns.items()):
        parts += [("{" if position == 0 else ",") + json.dumps(name, ensure_ascii=False) + ":"]
        parts += [json_values(column)]
    if not parts:
        return pa.repeat("{}", rows)
    return pc.binary_join_element_wise(*parts, "}", "")


def _numbers(column: pa.Array) -> pa.Array:
    """Floating-point numbers; those that JSON lacks are texts."""
    text = column.cast(pa.string())
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return text
    positive = pc.if_else(pc.greater(column, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_finite(column), text, pc.if_else(pc.is_nan(column), '"NaN"', positive))


def _times(micros: pa.Array) -> pa.Array:
    """ISO-8601; a time outside of the years 1 to 9999, which has no such text, is its microseconds."""
    numbers = micros.cast(pa.int64())
    usual = pc.and_(pc.greater_equal(numbers, YEAR_1), pc.less_equal(numbers, YEAR_9999_END))
    text = pc.strftime(
        pc.if_else(usual, micros, None), format="%Y-%m-%dT%H:%M:%S" + ("Z" if micros.type.tz else "")
    )
    return pc.coalesce(_quoted(text), numbers.cast(pa.string()))


def _maps(column: pa.Array) -> pa.Array:
    """An object per map, whose names are its keys."""
    pairs = column.cast(pa.list_(pa.struct([("k", column.type.key_type), ("v", column.type.item_type)])))
    entries = pairs.flatten()
    keys, values = json_values(entries.field(0)), json_values(entries.field(1))
    bare = pc.invert(pc.starts_with(keys, '"'))
    names = pc.if_else(bare, _quoted(_escaped(keys)), keys)
    return _joined(pairs, pc.binary_join_element_wise(names, values, ":"), "{}")


def _joined(lists: pa.Array, texts: pa.Array, brackets: str) -> pa.Array:
    """The texts of the values in each list, between brackets."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    inside = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return _where_valid(lists, pc.binary_join_element_wise(brackets[0], inside, brackets[1], ""))


def _where_valid(column: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), texts, None) if column.null_count else texts


def _hexadecimal(column: pa.Array) -> pa.Array:
    """Two digits per byte."""
    digits = np.frombuffer(b"".join(column.drop_null().to_pylist()).hex().encode(), np.uint8)
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths * 2)]).astype(np.int32)
    text = pa.StringArray.from_buffers(len(column), pa.py_buffer(offsets), pa.py_buffer(digits))
    return _where_valid(column, text)


def _escaped(text: pa.Array) -> pa.Array:
    for character, escape in _ESCAPES:
        if pc.any(pc.match_substring(text, character)).as_py():
            text = pc.replace_substring(text, character, escape)
    return text


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")
