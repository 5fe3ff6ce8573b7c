from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from braid.core.connectors import SourceKind
from braid.plan.stages.base import Column, Source
from braid.testing.expressions import ROW, NotEvaluatedError
from braid.testing.records import typed

BEGIN = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


def source(*columns: str, unit: str = "seconds") -> Source:
    pairs = [column.split(" ", 1) for column in columns]
    found = tuple(Column(name, kind) for name, kind in pairs)
    return Source(SourceKind.SCRIBE, "raw", found, time="t", time_unit=unit)


def parsed(texts: list[str], *columns: str, unit: str = "seconds") -> tuple[list[dict[str, object]], int]:
    found = typed(pa.table({"value": pa.array(texts, pa.string())}), source(*columns, unit=unit))
    return found.rows.to_pylist(), found.dead


def test_records_have_the_declared_types() -> None:
    text = (
        '{"n": 7, "x": 1, "d": 1.255, "b": true, "s": "a", "o": {"k": [1]}, "day": "2024-05-01", '
        '"t": "2024-05-01T12:00:00Z"}'
    )
    kinds = ("n int", "x double", "d decimal(10,2)", "b boolean", "s string", "o string", "day date")
    (row,), dead = parsed([text], *kinds, "t timestamp", "none bigint")
    assert dead == 0
    assert row | {"o": None} == {
        "n": 7,
        "x": 1.0,
        "d": Decimal("1.26"),
        "b": True,
        "s": "a",
        "o": None,
        "day": dt.date(2024, 5, 1),
        "t": BEGIN,
        "none": None,
        ROW: 0,
    }


def test_what_does_not_fit_is_a_dead_letter() -> None:
    texts = ["no json", "[1]", '{"n": "7"}', '{"n": 1.5}', '{"n": 3000000000}', '{"n": 1}', "{}"]
    rows, dead = parsed(texts, "n int")
    assert ([row["n"] for row in rows], [row[ROW] for row in rows], dead) == ([1, None], [5, 6], 5)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("seconds", "1714564800"),
        ("milliseconds", "1714564800000"),
        ("seconds", '"2024-05-01 14:00:00+02:00"'),
    ],
)
def test_times_are_numbers_in_a_unit_or_texts(unit: str, text: str) -> None:
    (row,), _ = parsed([f'{{"t": {text}}}'], "t timestamp", unit=unit)
    assert row["t"] == BEGIN


def test_an_event_time_that_is_none_is_left_to_the_slicer_and_another_one_is_not() -> None:
    assert parsed(['{"t": "noon"}'], "t timestamp") == ([{"t": None, ROW: 0}], 0)
    assert parsed(['{"u": "noon"}'], "u timestamp") == ([], 1)


@pytest.mark.parametrize("text", ["1e999999999", '"NaN"', '"-Infinity"', "1e29"])
def test_numbers_that_are_no_times_are_null_at_once(text: str) -> None:
    assert parsed([f'{{"t": {text}}}'], "t timestamp") == ([{"t": None, ROW: 0}], 0)


def test_typed_rows_are_cast() -> None:
    stored = pa.table({"t": [1714564800, None], "n": pa.array([1, 2], pa.int32()), "s": ["a", "b"]})
    found = typed(stored, source("t timestamp", "n bigint", "s string"))
    assert found.rows["t"].to_pylist() == [BEGIN, None]
    assert found.rows["n"].type == pa.int64()
    with pytest.raises(NotEvaluatedError, match="'s' is stored as string"):
        typed(stored, source("s bigint"))
