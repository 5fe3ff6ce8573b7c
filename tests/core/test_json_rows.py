"""Rows as JSON are what Python's own JSON reader takes back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from braid.core.json_rows import json_rows
from braid.core.times import YEAR_1, YEAR_9999_END


def test_every_type_is_readable_json() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "text": ['plain "quoted" \\ back', "line\nbreak\ttab\x01", None],
            'ä "name"': [1, -5, None],
            "real": [0.5, float("nan"), float("inf")],
            "flag": [True, False, None],
            "at": pa.array([datetime(2024, 1, 2, 3, 4, 5, 6, UTC), None, None], pa.timestamp("us", tz="UTC")),
            "local": pa.array([datetime(2024, 1, 2), None, None], pa.timestamp("us")),
            "day": [date(2024, 1, 2), None, None],
            "exact": [Decimal("1.50"), None, None],
            "list": [[1, 2], [], None],
            "bytes": [b"\x01\xff", None, None],
        }
    )
    rows = [json.loads(text) for text in json_rows(batch).to_pylist()]
    assert rows[0] == {
        "text": 'plain "quoted" \\ back',
        'ä "name"': 1,
        "real": 0.5,
        "flag": True,
        "at": "2024-01-02T03:04:05.000006Z",
        "local": "2024-01-02T00:00:00.000000",
        "day": "2024-01-02",
        "exact": 1.5,
        "list": [1, 2],
        "bytes": "01ff",
    }
    assert rows[1]["text"] == "line\nbreak\ttab\x01"
    assert [row["real"] for row in rows] == [0.5, "NaN", "Infinity"]
    assert all(value is None for name, value in rows[2].items() if name != "real")


def test_nested_values_are_printed_as_what_they_are() -> None:
    """At any depth, in slices, and with NULLs on every level."""
    numbers = pa.map_(pa.int64(), pa.float64())
    batch = pa.RecordBatch.from_pydict(
        {
            "map": pa.array([[("a", 1), ('"b"', None)], [], None], pa.map_(pa.string(), pa.int64())),
            "numbers": pa.array([[(1, float("-inf"))], None, []], numbers),
            "list": pa.array([[1.5, float("nan"), None], [], None], pa.list_(pa.float64())),
            "struct": pa.array(
                [
                    {"at": datetime(2024, 1, 2, tzinfo=UTC), "raw": [b"\x01", None]},
                    None,
                    {"at": None, "raw": []},
                ],
                pa.struct([("at", pa.timestamp("us", tz="UTC")), ("raw", pa.list_(pa.binary()))]),
            ),
        }
    )
    expected = [
        {
            "map": {"a": 1, '"b"': None},
            "numbers": {"1": "-Infinity"},
            "list": [1.5, "NaN", None],
            "struct": {"at": "2024-01-02T00:00:00.000000Z", "raw": ["01", None]},
        },
        {"map": {}, "numbers": None, "list": [], "struct": None},
        {"map": None, "numbers": {}, "list": None, "struct": {"at": None, "raw": []}},
    ]
    assert [json.loads(text) for text in json_rows(batch).to_pylist()] == expected
    assert [json.loads(text) for text in json_rows(batch.slice(1)).to_pylist()] == expected[1:]


def test_times_that_no_text_can_say_are_numbers() -> None:
    limits = [2**62, -(2**62), YEAR_9999_END, YEAR_9999_END + 1, YEAR_1 - 1]
    batch = pa.RecordBatch.from_pydict({"at": pa.array(limits, pa.timestamp("us", tz="UTC"))})
    shown = [json.loads(text)["at"] for text in json_rows(batch).to_pylist()]
    assert shown == [*limits[:2], "9999-12-31T23:59:59.999999Z", *limits[3:]]


def test_columns_can_be_chosen_and_may_be_none() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": [3, 4]})
    assert json_rows(batch, ["b"]).to_pylist() == ['{"b":3}', '{"b":4}']
    assert json_rows(batch, []).to_pylist() == ["{}", "{}"]
