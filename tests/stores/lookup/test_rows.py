"""Rows as bytes: every type comes back as it was, and bytes of another layout are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from braid.core.errors import CorruptError, SchemaError
from braid.stores.lookup.keys import KeyCodec
from braid.stores.lookup.rows import RowCodec, check_columns
from braid.stores.lookup.values import NEVER, ValueCodec
from tests.stores.lookup.samples import TYPES, batches, rows_of


@given(batches())
@settings(max_examples=150)
def test_rows_come_back_as_they_were(batch):
    codec = RowCodec(batch.schema, b"prefix")
    rows = codec.encode(batch.columns)
    assert all(row.startswith(b"prefix") for row in rows.to_pylist())
    found = codec.decode(rows, batch.schema.names, "here")
    assert [column.type for column in found] == batch.schema.types
    for column in found:
        column.validate(full=True)
    assert rows_of(pa.RecordBatch.from_arrays(found, schema=batch.schema)) == rows_of(batch)


@given(batches(nulls=False))
@settings(max_examples=100)
def test_keys_have_equal_bytes_exactly_if_they_are_equal(batch):
    codec = KeyCodec(batch.schema)
    keys = codec.encode(batch.columns)
    rows = rows_of(batch)
    assert sorted(keys.rows.tolist()) == list(range(batch.num_rows))
    found = dict(zip(keys.rows.tolist(), keys.encoded.to_pylist(), strict=True))
    for i in range(len(rows)):
        for j in range(i):
            assert (found[i] == found[j]) == (rows[i] == rows[j])
    assert keys.encoded.to_pylist() == sorted(keys.encoded.to_pylist(), key=lambda key: key[:9])
    decoded = pa.RecordBatch.from_arrays(codec.decode(keys.encoded, "here"), schema=batch.schema)
    assert rows_of(decoded) == [rows[i] for i in keys.rows]


def test_all_floats_that_sql_calls_equal_are_one_key():
    other_nan = np.frombuffer(np.uint64(0x7FF8000000000001).tobytes(), np.float64)[0]
    codec = KeyCodec(pa.schema([("x", pa.float64())]))
    keys = codec.encode([pa.array(np.array([0.0, -0.0, np.nan, other_nan, 1.0]))])
    assert len(set(keys.encoded.to_pylist())) == 3


def test_a_null_makes_no_key():
    codec = KeyCodec(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    keys = codec.encode([pa.array([1, None, 3]), pa.array(["", "b", None])])
    assert keys.rows.tolist() == [0]


def test_neighbouring_texts_do_not_run_into_each_other():
    codec = KeyCodec(pa.schema([("a", pa.string()), ("b", pa.string())]))
    keys = codec.encode([pa.array(["ab", "a"]), pa.array(["c", "bc"])])
    assert len(set(keys.encoded.to_pylist())) == 2


def test_columns_that_were_added_later_are_null_in_old_rows():
    narrow = ValueCodec(pa.schema([("a", pa.int64())]))
    wide = ValueCodec(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    times = np.array([NEVER], np.int64)
    old = narrow.encode([pa.array([1])], times, 5)
    new = wide.encode([pa.array([2]), pa.array(["x"])], times, 6)
    rows = pa.array([new[0].as_py(), None, old[0].as_py(), new[0].as_py()], pa.large_binary())
    written, (b, a) = wide.decode(rows, ["b", "a"], "here")
    assert written.tolist() == [6, NEVER, 5, 6]
    assert (a.to_pylist(), b.to_pylist()) == ([2, None, 1, 2], ["x", None, None, "x"])


def test_bytes_of_another_layout_are_refused():
    texts = RowCodec(pa.schema([("a", pa.string()), ("b", pa.int64())]))
    whole = texts.encode([pa.array(["hello"]), pa.array([1])])[0].as_py()
    for damaged in (whole[:-1], whole + b"x", b"", whole[:5]):
        with pytest.raises(CorruptError, match="layout"):
            texts.decode(pa.array([damaged], pa.large_binary()), ["a"], "here")
    with pytest.raises(CorruptError, match="columns"):
        ValueCodec(pa.schema([])).decode(pa.array([b"\x07\x00"], pa.large_binary()), [], "here")


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.null(), pa.float16()], ids=str
)
def test_types_that_cannot_be_stored_are_refused_by_name(kind):
    with pytest.raises(SchemaError, match="'x' has type"):
        check_columns(pa.schema([("x", kind)]), "here")


def test_dictionaries_are_what_they_stand_for():
    schema = pa.schema([("x", pa.dictionary(pa.int8(), pa.string()))])
    assert check_columns(schema, "here") == pa.schema([("x", pa.string())])
    assert check_columns(pa.schema([(str(kind), kind) for kind in TYPES]), "here").types == list(TYPES)
