"""Rows as bytes and back, whole columns at a time.

A row is a part of fixed width (a prefix, a bit per column that is NULL, the values of fixed width, and the
lengths of texts) and then its texts. Encoding is a matrix of the fixed parts that Arrow joins with the text
columns; decoding is a gather of the fixed parts and slices of one buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.errors import CorruptError, SchemaError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

ENCODED = pa.large_binary()
"""The Arrow type of encoded rows."""
_LENGTH = 4
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def check_columns(schema: pa.Schema, where: str) -> pa.Schema:
    """Columns by name and type only, dictionaries as what they stand for; raise `SchemaError` for others."""
    fields: dict[str, pa.Field] = {}
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in fields:
            raise SchemaError(f"column {field.name!r} occurs twice", where=where, hint="rename one of them")
        if kind not in _TEXTS and _width(kind) is None:
            raise SchemaError(
                f"column {field.name!r} has type {kind}, which a lookup table cannot hold",
                where=where,
                hint="use numbers, texts, booleans, binary, dates or times; store nested values as JSON",
            )
        fields[field.name] = pa.field(field.name, kind)
    return pa.schema(list(fields.values()))


def _width(kind: pa.DataType) -> int | None:
    """Bytes of a value, or None if the type has no fixed width here."""
    t = pa.types
    if t.is_boolean(kind):
        return 1
    numeric = t.is_integer(kind) or t.is_float32(kind) or t.is_float64(kind) or t.is_decimal(kind)
    temporal = t.is_date(kind) or t.is_time(kind) or t.is_timestamp(kind) or t.is_duration(kind)
    return int(kind.bit_width // 8) if numeric or temporal or t.is_fixed_size_binary(kind) else None


@dataclass(frozen=True)
class _Slot:
    """Where a column is in the fixed part; for a text, where its length is."""

    start: int
    stop: int
    text: int | None
    """Number of the text among the texts; None for a value of fixed width."""


class RowCodec:
    """Encodes and decodes rows of one schema.

    Parameters
    ----------
    schema
        Columns that `check_columns` accepts.
    prefix
        Constant bytes that every row starts with.
    nullable
        Whether values may be NULL.
    """

    def __init__(self, schema: pa.Schema, prefix: bytes = b"", *, nullable: bool = True) -> None:
        self.schema = schema
        self._prefix = np.frombuffer(prefix, np.uint8)
        self._nulls = len(prefix)
        at = self._nulls + ((len(schema) + 7) // 8 if nullable else 0)
        self._bitmap = slice(self._nulls, at)
        self._slots: list[_Slot] = []
        texts = 0
        for field in schema:
            width = _width(field.type)
            self._slots.append(_Slot(at, at + (width or _LENGTH), None if width else texts))
            texts += width is None
            at += width or _LENGTH
        self._fixed = at
        self._texts = texts

    def encode(self, columns: Sequence[pa.Array]) -> pa.LargeBinaryArray:
        """One row of bytes per row of the columns, which are in the schema's order and of its types."""
        rows = len(columns[0])
        fixed = np.zeros((rows, self._fixed), np.uint8)
        fixed[:, : self._nulls] = self._prefix
        nulls = np.zeros((rows, len(columns)), np.bool_)
        texts: list[pa.Array] = []
        for index, (column, slot) in enumerate(zip(columns, self._slots, strict=True)):
            if slot.text is not None:
                texts.append(column.cast(ENCODED))
                lengths = pc.fill_null(pc.binary_length(texts[-1]), 0).to_numpy().astype("<u4")
                fixed[:, slot.start : slot.stop] = lengths.view(np.uint8).reshape(rows, _LENGTH)
            else:
                fixed[:, slot.start : slot.stop] = _values(column, slot.stop - slot.start)
            if column.null_count:
                nulls[:, index] = column.is_null().to_numpy(zero_copy_only=False)
                fixed[nulls[:, index], slot.start : slot.stop] = 0
        if self._bitmap.stop > self._bitmap.start:
            fixed[:, self._bitmap] = np.packbits(nulls, axis=1, bitorder="little")
        parts = pa.Array.from_buffers(pa.binary(self._fixed), rows, [None, pa.py_buffer(fixed)]).cast(ENCODED)
        if not texts:
            return parts
        return pc.binary_join_element_wise(
            parts, *texts, pa.scalar(b"", ENCODED), null_handling="replace", null_replacement=""
        )

    def decode(self, rows: pa.LargeBinaryArray, names: Sequence[str], where: str) -> list[pa.Array]:
        """Columns of encoded rows, by name; raise `CorruptError` if the bytes are not of this schema."""
        if not len(rows):
            return [pa.array([], self.schema.field(name).type) for name in names]
        _, offset_buffer, data = rows.buffers()
        bounds: Ints = np.frombuffer(offset_buffer, np.int64)[rows.offset : rows.offset + len(rows) + 1]
        content: Bytes = np.frombuffer(data if data is not None else b"", np.uint8)
        starts = bounds[:-1]
        if int(np.diff(bounds).min()) < self._fixed:
            raise self._corrupt(where)
        # A window starts at every byte; the fixed part of each row is one of them.
        fixed = np.lib.stride_tricks.sliding_window_view(content, self._fixed)[starts]
        ends = starts + self._fixed
        text_bounds: list[tuple[Ints, Ints]] = []
        for slot in self._slots:
            if slot.text is not None:
                lengths = np.ascontiguousarray(fixed[:, slot.start : slot.stop]).view("<u4")[:, 0]
                text_bounds.append((ends, ends + lengths))
                ends = ends + lengths
        if not np.array_equal(ends, bounds[1:]) or (fixed[:, : self._nulls] != self._prefix).any():
            raise self._corrupt(where)
        found = []
        for name in names:
            index = self.schema.get_field_index(name)
            slot, kind = self._slots[index], self.schema.field(index).type
            nulls = self._null_mask(fixed, index)
            if slot.text is None:
                found.append(_fixed_array(kind, fixed[:, slot.start : slot.stop], nulls))
            else:
                start, end = text_bounds[slot.text]
                found.append(_text_array(kind, data, start, end, nulls, where))
        return found

    def _null_mask(self, fixed: Bytes, index: int) -> Mask | None:
        if self._bitmap.stop == self._bitmap.start:
            return None
        nulls: Mask = (fixed[:, self._bitmap.start + index // 8] >> np.uint8(index % 8) & 1).astype(np.bool_)
        return nulls if nulls.any() else None

    def _corrupt(self, where: str) -> CorruptError:
        return CorruptError(
            "stored rows do not have the layout of the table's columns",
            where=where,
            hint="load the table again with --replace",
        )


def _values(column: pa.Array, width: int) -> Bytes:
    """The bytes of values of fixed width, one row each; those of NULLs are arbitrary."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros((len(column), width), np.uint8)
    values: Bytes = np.frombuffer(buffer, np.uint8)[
        column.offset * width : (column.offset + len(column)) * width
    ]
    return values.reshape(len(column), width)


def _fixed_array(kind: pa.DataType, values: Bytes, nulls: Mask | None) -> pa.Array:
    rows = len(values)
    validity = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    if pa.types.is_boolean(kind):
        data = np.packbits(values[:, 0] != 0, bitorder="little")
    else:
        data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(data)])


def _text_array(
    kind: pa.DataType, data: pa.Buffer | None, starts: Ints, ends: Ints, nulls: Mask | None, where: str
) -> pa.Array:
    # An array over the whole buffer in which texts and the gaps between them alternate; then the texts only.
    bounds = np.empty(2 * len(starts) + 1, np.int64)
    bounds[:-1:2], bounds[1::2], bounds[-1] = starts, ends, ends[-1]
    both = pa.Array.from_buffers(ENCODED, 2 * len(starts), [None, pa.py_buffer(bounds), data])
    texts = both.take(pa.array(np.arange(0, 2 * len(starts), 2), mask=nulls))
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:
        raise CorruptError(f"a stored text is damaged: {error}", where=where) from error
