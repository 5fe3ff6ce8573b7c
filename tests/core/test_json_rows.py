"""Rows as JSON are what Python's own JSON reader takes back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from braid.core.json_rows import json_rows


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
    assert [row["real"] for row in rows] == [0.5, None, None]
    assert all(value is None for name, value in rows[2].items())


def test_columns_can_be_chosen_and_may_be_none() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": [3, 4]})
    assert json_rows(batch, ["b"]).to_pylist() == ['{"b":3}', '{"b":4}']
    assert json_rows(batch, []).to_pylist() == ["{}", "{}"]
