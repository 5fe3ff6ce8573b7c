"""Random joins and random inputs for them."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
from hypothesis import strategies as st

from braid.core.columns import LIVE, TIME
from braid.core.side import Side
from braid.kernels.join.predicate import ColumnRef, Compare
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode, SeriesMode, SeriesSpec
from tests.kernels.join.harness import OUTPUT, Case, Row

KEY_VALUES = {
    pa.string(): ["a", "b", "ab", "", "é"],
    pa.int64(): [0, 1, -1, 2**62],
    pa.int32(): [0, 1, -7],
    pa.bool_(): [True, False],
    pa.binary(): [b"", b"a", b"\x00"],
    pa.float64(): [0.0, 1.5, float("nan"), float("inf")],
    pa.date32(): [datetime.date(2020, 1, 1), datetime.date(1969, 12, 31)],
    pa.timestamp("us"): [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 0, 0, 0, 1)],
    pa.decimal128(10, 2): [decimal.Decimal("1.00"), decimal.Decimal("-1.50")],
    pa.struct([("a", pa.int64()), ("b", pa.string())]): [
        {"a": 1, "b": "x"},
        {"a": 1, "b": None},
        {"a": 2, "b": "x"},
    ],
}


@st.composite
def rows(draw: st.DrawFn, key_types: list[pa.DataType], first_id: int) -> list[list[Row]]:
    """Blocks of rows, more or less ordered in time, with duplicates, NULLs and rows that cannot match."""
    size = draw(st.integers(0, 24))
    blocks: list[list[Row]] = [[]]
    for i in range(size):
        row: Row = {
            TIME: draw(st.one_of(st.integers(max(0, i - 8), i + 8), st.sampled_from([None, 0, 5]))),
            LIVE: draw(st.sampled_from([True] * 9 + [False])),
            "id": first_id + i,
            "x": draw(st.sampled_from([0.0, 1.0, 2.0, None])),
        }
        for k, kind in enumerate(key_types):
            row[f"__key{k}"] = draw(st.sampled_from([*KEY_VALUES[kind], None]))
        blocks[-1].append(row)
        if draw(st.booleans()):
            blocks.append([])
    return blocks


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    types: tuple[JoinType, ...] = tuple(JoinType),
    matches: tuple[MatchMode, ...] = tuple(MatchMode),
    late: frozenset[Side] = frozenset(),
    caps: bool = False,
    late_lookup: bool = True,
) -> Case:
    """A join and its inputs."""
    key_types = draw(st.lists(st.sampled_from(list(KEY_VALUES)), min_size=0, max_size=2))
    lower = draw(st.integers(-12, 8))
    spec = JoinSpec(
        type=draw(st.sampled_from(types)),
        lower=lower,
        upper=lower + draw(st.sampled_from([0, 1, 3, 6, 15])),
        keys=len(key_types),
        output=OUTPUT,
        match=draw(st.sampled_from(matches)),
        residual=draw(
            st.sampled_from([None, Compare("<", ColumnRef(Side.LEFT, "x"), ColumnRef(Side.RIGHT, "x"))])
        ),
        max_per_key=draw(st.integers(1, 3)) if caps else None,
        late_lookup=late_lookup,
    )
    return Case(
        spec=spec,
        left=draw(rows(key_types, 0)),
        right=draw(rows(key_types, 1000)),
        key_types=key_types,
        seed=draw(st.integers(0, 2**32)),
        late=late,
    )


@st.composite
def series_cases(draw: st.DrawFn, modes: tuple[SeriesMode, ...] = tuple(SeriesMode)) -> Case:
    """A time-series join and its inputs."""
    key_types = draw(st.lists(st.sampled_from(list(KEY_VALUES)), min_size=0, max_size=2))
    mode = draw(st.sampled_from(modes))
    types = tuple(JoinType) if mode.symmetric else (JoinType.INNER, JoinType.LEFT)
    spec = SeriesSpec(
        type=draw(st.sampled_from(types)),
        mode=mode,
        keys=len(key_types),
        output=OUTPUT,
        within=draw(st.sampled_from([None, 0, 1, 3, 10])),
        inclusive=draw(st.booleans()),
    )
    return Case(
        spec=spec,
        left=draw(rows(key_types, 0)),
        right=draw(rows(key_types, 1000)),
        key_types=key_types,
        seed=draw(st.integers(0, 2**32)),
    )
