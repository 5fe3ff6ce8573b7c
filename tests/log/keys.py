"""Key columns of every type that can be hashed, for the tests of the hash."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

NAN = float("nan")
UTC = datetime.UTC

COLUMNS = {
    "bool": pa.array([True, False, None]),
    "int8": pa.array([0, -1, 127, -128, None], pa.int8()),
    "int16": pa.array([0, -1, 32767, -32768, None], pa.int16()),
    "int32": pa.array([0, -1, 2**31 - 1, -(2**31), None], pa.int32()),
    "int64": pa.array([0, -1, 2**63 - 1, -(2**63), None], pa.int64()),
    "float": pa.array([0.0, -0.0, 1.5, NAN, float("-inf"), None], pa.float32()),
    "double": pa.array([0.0, -0.0, 1.5, NAN, float("inf"), None], pa.float64()),
    "date": pa.array([datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None]),
    "timestamp": pa.array(
        [
            datetime.datetime(1960, 1, 1, tzinfo=UTC),
            datetime.datetime(2024, 2, 29, 1, 2, 3, 456789, UTC),
            None,
        ],
        pa.timestamp("us", "UTC"),
    ),
    "timestamp_ntz": pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3, 456789), None], pa.timestamp("us")),
    "duration": pa.array([datetime.timedelta(days=-1, microseconds=5), None], pa.duration("us")),
    "string": pa.array(
        ["", "a", "äöü", "seven77", "eight888", "x" * 31, "y" * 32, "z" * 33, "w" * 200, None]
    ),
    "binary": pa.array([b"", b"\x00", b"\xff" * 12, bytes(range(67)), None]),
    "decimal_short": pa.array(
        [Decimal("0.00"), Decimal("-1.23"), Decimal("9999999999999999.99"), None], pa.decimal128(18, 2)
    ),
    "decimal_long": pa.array(
        [
            Decimal(0),
            Decimal(-1),
            Decimal(127),
            Decimal(128),
            Decimal(-128),
            Decimal(-129),
            Decimal(2**63),
            Decimal(-(2**63)),
            Decimal(10**38 - 1),
            Decimal(1 - 10**38),
            None,
        ],
        pa.decimal128(38, 0),
    ),
    "struct": pa.array(
        [{"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": 1, "b": None}, None],
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
    ),
}
"""Values at the edges of each type that Spark has, by the type's name."""
