from __future__ import annotations

import pyarrow as pa
import pytest

from braid.plan.stages.base import Projection
from braid.testing.expressions import FailedRowError, NotEvaluatedError, arrow_type, evaluate

ROWS = pa.table(
    {
        "n": [4, 0, None],
        "s": ["7", "(", "x"],
        "t": pa.array([1_500_000, 0, None], pa.timestamp("us", tz="UTC")),
    }
)


def computed(sql: str, kind: str) -> list[object]:
    found: list[object] = evaluate(ROWS, [Projection("x", sql, kind)], None)["x"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("sql", "kind", "values"),
    [
        # As Spark without ANSI: what cannot be computed is NULL.
        ("8 / n", "double", [2.0, None, None]),
        ("8 % n", "bigint", [0, None, None]),
        ("CAST(s AS INT)", "int", [7, None, None]),
        ("UNIX_MICROS(TIMESTAMP_MICROS(UNIX_MICROS(t) + 1))", "bigint", [1_500_001, 1, None]),
        ("UPPER(s)", "string", ["7", "(", "X"]),
        ("n IS NULL", "boolean", [False, False, True]),
        ("CAST(n AS DECIMAL(10, 2)) > 1", "boolean", [True, False, None]),
    ],
)
def test_what_spark_computes(sql: str, kind: str, values: list[object]) -> None:
    assert computed(sql, kind) == values


def test_what_fails_in_spark_fails_with_the_number_of_the_row() -> None:
    with pytest.raises(FailedRowError, match="regular expression") as error:
        computed("'x' RLIKE s", "boolean")
    assert error.value.row == 1
    assert "(" not in str(error.value)
    with pytest.raises(FailedRowError, match="time zone"):
        computed("from_utc_timestamp(t, s)", "timestamp")
    assert len(evaluate(ROWS, [Projection("x", "'x' RLIKE s", "boolean")], "s <> '('")) == 2


@pytest.mark.parametrize(
    ("sql", "kind", "said"),
    [
        ("xxhash64(n)", "bigint", "xxhash64"),
        ("n * 9223372036854775807", "bigint", "out of range"),
        ("s", "bigint", "another type"),
        ("n", "variant", "variant"),
    ],
)
def test_what_only_spark_computes_is_not_the_programs_fault(sql: str, kind: str, said: str) -> None:
    with pytest.raises(NotEvaluatedError, match=said) as error:
        computed(sql, kind)
    assert "9223372036854775807 *" not in str(error.value)


def test_nothing_outside_of_the_rows_is_read() -> None:
    with pytest.raises(NotEvaluatedError):
        computed("(SELECT count(*) FROM read_text('/etc/passwd'))", "bigint")


def test_types() -> None:
    assert arrow_type("decimal(10,2)") == pa.decimal128(10, 2)
    assert arrow_type("array<bigint>") == pa.list_(pa.int64())
