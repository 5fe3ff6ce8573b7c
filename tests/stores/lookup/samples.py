"""Tables and values that the tests of the lookup store share."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from braid.stores.lookup import Found, LookupStore, LookupTable

KEY = pa.schema([("id", pa.int64())])
VALUE = pa.schema([("name", pa.string()), ("score", pa.int32())])

MICROS = 10**15
TYPES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.string(): st.text(max_size=12),
    pa.large_string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=12),
    pa.large_binary(): st.binary(max_size=3),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint8(): st.integers(0, 2**8 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(12, 3): st.decimals(-(10**8), 10**8, places=3),
    pa.decimal128(38, 0): st.decimals(-(10**30), 10**30, places=0),
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us", "UTC"): st.integers(-MICROS, MICROS),
    pa.timestamp("ms"): st.integers(-MICROS // 1000, MICROS // 1000),
    pa.duration("s"): st.integers(-MICROS // 10**6, MICROS // 10**6),
}


@st.composite
def batches(draw: st.DrawFn, *, max_rows: int = 20, nulls: bool = True) -> pa.RecordBatch:
    """Columns of any types that a lookup table can hold."""
    kinds = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=5))
    rows = draw(st.integers(0, max_rows))
    columns = []
    for kind in kinds:
        values = st.none() | TYPES[kind] if nulls else TYPES[kind]
        columns.append(pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind))
    # A slice, so that offsets into buffers are not always 0.
    start = draw(st.integers(0, min(rows, 2)))
    return pa.RecordBatch.from_arrays(
        [c.slice(start) for c in columns], names=[f"c{i}" for i in range(len(kinds))]
    )


def canonical(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row whose equality is that of SQL: one NaN, one zero."""
    return tuple(
        "NaN" if isinstance(v, float) and math.isnan(v) else Decimal(v) if isinstance(v, Decimal) else v
        for v in row
    )


def rows_of(batch: pa.RecordBatch | pa.Table) -> list[tuple[object, ...]]:
    return [canonical(tuple(row.values())) for row in batch.to_pylist()]


def users(ids: list[int | None], score: int, names: list[str | None] | None = None) -> pa.RecordBatch:
    """Rows of the usual table."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids, pa.int64()),
            pa.array(names or [f"user {i}" for i in ids], pa.string()),
            pa.array([score] * len(ids), pa.int32()),
        ],
        schema=pa.schema([*KEY, *VALUE]),
    )


def create(home: Path, ttl: int | None = None) -> LookupTable:
    return LookupStore(home).create("users", KEY, VALUE, ttl)


def ids(*values: int | None) -> list[pa.Array]:
    return [pa.array(values, pa.int64())]


def scores(found: Found) -> list[int | None]:
    assert found.found.tolist() == [name is not None for name in found.values["name"].to_pylist()]
    return found.values["score"].to_pylist()


def every(count: int) -> list[pa.Array]:
    return [pa.array(np.arange(count))]
