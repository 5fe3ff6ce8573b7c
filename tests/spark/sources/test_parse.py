"""Records to typed columns in Catalyst: nothing vanishes, and every way in judges event times alike."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braid.core.columns import NOTE, TIME
from braid.core.config import AppConfig
from braid.core.times import DAY, YEAR_1, YEAR_9999_END, now_micros
from braid.engine.notes import SEPARATOR
from braid.plan.kinds.slicer import JoinInput
from braid.plan.stages.base import Column, Projection

pytestmark = pytest.mark.spark

COLUMNS = (Column("k", "bigint"), Column("x", "double"), Column("s", "string"), Column("t", "timestamp"))


def test_every_line_is_a_row_or_a_letter(spark) -> None:  # type: ignore[no-untyped-def]
    from braid.spark.sources.parse import parse_json

    lines = {
        '{"k": 1, "t": 0}': "row",
        ' {"k": 1, "t": 0, "s": "} {"} ': "row",
        '{"k": 1, "t": 0, "s": {"a": [{"b": "}"}]}}': "row",
        '{"k": 2, "k": 1, "t": 0}': "row",
        '{"k": null, "t": 0}': "row",
        '{"t": 0}': "+missing_field k",
        '{"k": 1, "t": 0, "x": "NaN"}': "row",
        '{"k": 1, "t": 0, "x": "-Infinity"}': "row",
        '{"k": 1, "t": 0} {"k": 2, "t": 0}': "-malformed_json ",
        '{"k": 1, "t": 0},{"k": 2, "t": 0}': "-malformed_json ",
        '{"k": 1, "t": 0}{"k": 2, "t": 0}': "-malformed_json ",
        '{"k": 1, "t": 0}] [{"k": 2}': "-malformed_json ",
        '{"k": 1, "t": 0},0] [{"k": 2}': "-malformed_json ",
        '{"k": 1, "t": 0}}': "-malformed_json ",
        '{"k": 1, "t": 0,}': "-malformed_json ",
        '[{"k": 1, "t": 0}]': "-malformed_json ",
        "": "-malformed_json ",
        "7": "-malformed_json ",
        '{"k": 12345678901234567890, "t": 0}': "-untypable_field k",
        '{"k": 1.5, "t": 0}': "-untypable_field k",
        '{"k": "one", "t": 0}': "-untypable_field k",
        '{"k": [1], "t": 0}': "-untypable_field k",
    }
    frame = spark.createDataFrame([(line,) for line in lines], "value string")
    rows = parse_json(frame, COLUMNS, ["k"], "seconds", "t").collect()
    assert [_words(row[NOTE]) for row in rows] == list(lines.values())
    assert [row["k"] for row in rows][:6] == [1, 1, 1, 1, None, None]
    assert str([row["x"] for row in rows][6:8]) == "[nan, -inf]"
    invalid = spark.sql("SELECT CAST(X'7B226B223A22FF227D' AS STRING) AS value")
    (row,) = parse_json(invalid, COLUMNS, ["k"], "seconds", "t").collect()
    assert _words(row[NOTE]) == "-malformed_json not UTF-8"


FUTURE = now_micros() + 30 * DAY
NUMBERS: dict[object, str | None] = {
    0: None,
    1_700_000_000_000_000: None,
    YEAR_1: None,
    YEAR_1 - 1: "too far off",
    YEAR_9999_END: "in the future",
    YEAR_9999_END + 1: "too far off",
    2**62: "too far off",
    -(2**63) + 1: "too far off",
    2**63 - 1: "too far off",
    FUTURE: "in the future",
    None: "missing or unreadable",
}
"""Microseconds, and why they are no event times."""
TEXTS: dict[str | None, int | None] = {
    "2024-01-01T00:00:00Z": 1_704_067_200_000_000,
    "2024-01-01T01:00:00+01:00": 1_704_067_200_000_000,
    "2024-01-01 00:00:00": 1_704_067_200_000_000,
    "2024-01-01": 1_704_067_200_000_000,
    "2024-01-01T00:00:00.123456789Z": 1_704_067_200_123_456,
    "2024-07-01T02:00:00 Europe/Berlin": 1_719_792_000_000_000,
    "2024-02-30": None,
    "2024-01-01T25:00:00Z": None,
    "2024-06-30T23:59:60Z": None,
    "12:00:00": None,
    "10000-01-01T00:00:00Z": None,
    "now": None,
    "": None,
    "NaN": None,
    None: None,
}
"""Texts, and the microseconds that they stand for."""


def test_every_way_in_judges_event_times_alike(spark, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """JSON (categories, files, Kafka), CSV, Parquet and typed categories: the same time, or why none."""
    texts = [*TEXTS, *(str(number) for number in NUMBERS if number is not None)]
    ways = {
        "JSON texts": _json_way(spark, texts),
        "CSV": _csv_way(spark, texts),
        "typed texts": _typed_way(spark, texts, "string"),
    }
    expected = [(time, None if time is not None else "missing or unreadable") for time in TEXTS.values()]
    expected += [(n if why is None else None, why) for n, why in NUMBERS.items() if n is not None]
    for name, found in ways.items():
        assert found == expected, name
    numbers = list(NUMBERS)
    ways = {
        "JSON numbers": _json_way(spark, numbers),
        "typed numbers": _typed_way(spark, numbers, "bigint"),
        "Parquet in Catalyst": _parquet_way(spark, numbers, tmp_path),
        "Parquet in Arrow": _arrow_way(numbers, tmp_path),
    }
    expected = [(number if why is None else None, why) for number, why in NUMBERS.items()]
    for name, found in ways.items():
        assert found == expected, name


def test_epoch_numbers_are_read_in_the_declared_unit(spark) -> None:  # type: ignore[no-untyped-def]
    wanted = [(1_704_067_200_500_000, None), (None, "too far off")]
    for unit, values in (
        ("seconds", [1_704_067_200.5, 1e12]),
        ("milliseconds", [1_704_067_200_500, 1e15]),
        ("microseconds", [1_704_067_200_500_000, 1e18]),
    ):
        assert _json_way(spark, values, unit) == wanted, unit
        assert _csv_way(spark, [repr(value) for value in values], unit) == wanted, unit


def test_values_of_typed_rows_that_do_not_fit_are_letters(spark) -> None:  # type: ignore[no-untyped-def]
    from braid.spark.sources.parse import parse_typed

    frame = spark.createDataFrame([(1, "7"), (2**40, "7"), (2, "x")], "k bigint, n string")
    columns = (Column("k", "int"), Column("n", "bigint"))
    rows = parse_typed(frame, columns, "seconds", None).collect()
    assert [_words(row[NOTE]) for row in rows] == ["row", "-untypable_field k", "-untypable_field n"]


def _words(note: str | None) -> str:
    if note is None:
        return "row"
    flag, reason, detail, _ = note.split(SEPARATOR, 3)
    return f"{flag}{reason} {detail}"


T = (Column("t", "timestamp"),)


def _json_way(spark, values, unit="microseconds"):  # type: ignore[no-untyped-def]
    from braid.spark.sources.parse import parse_json

    lines = [(json.dumps({"t": value}),) for value in values]
    return _judged(parse_json(spark.createDataFrame(lines, "value string"), T, [], unit, "t"))


def _csv_way(spark, values, unit="microseconds"):  # type: ignore[no-untyped-def]
    from braid.spark.sources.parse import parse_texts

    rows = [(value, None, None) for value in values]
    frame = spark.createDataFrame(rows, "t string, __raw string, __note string")
    return _judged(parse_texts(frame, T, unit, "t"))


def _typed_way(spark, values, kind):  # type: ignore[no-untyped-def]
    from braid.spark.sources.parse import parse_typed

    frame = spark.createDataFrame([(value,) for value in values], f"t {kind}")
    return _judged(parse_typed(frame, T, "microseconds", "t"))


def _parquet(values: list[int | None], folder: Path) -> Path:
    path = folder / "times.parquet"
    times = pa.array(values, pa.timestamp("us", tz="UTC"))
    keys = pa.array(["k"] * len(values))
    pq.write_table(pa.table({"t": times, "k": keys, "v": pa.nulls(len(values), pa.float64())}), path)
    return path


def _parquet_way(spark, values, folder):  # type: ignore[no-untyped-def]
    from braid.spark.sources.parse import parse_typed

    frame = spark.read.parquet(str(_parquet(values, folder))).select("t")
    return _judged(parse_typed(frame, T, "microseconds", "t"))


def _arrow_way(values, folder):  # type: ignore[no-untyped-def]
    from braid.core.columns import FILE_CLOCK, FILE_PATH
    from braid.spark.slicers.arrow_files import ArrowSlicer
    from tests.spark.slicers.test_arrow_files import STORED, TARGET, slicer_stage

    slicer = ArrowSlicer.plan(slicer_stage(), STORED, TARGET, AppConfig().max_future)
    assert slicer is not None
    named = pa.record_batch({FILE_PATH: [f"file:{_parquet(values, folder)}"], FILE_CLOCK: [now_micros()]})
    [batches] = slicer.files(iter([named]))
    rows = pa.Table.from_batches(batches)
    return list(zip(rows[TIME].to_pylist(), map(_why, rows[NOTE].to_pylist()), strict=True))


def _judged(frame):  # type: ignore[no-untyped-def]
    """The event time of each row, and why it has none."""
    from braid.spark.slicers.catalyst import join_rows

    extra = JoinInput((Projection("k", "1", "bigint"),), Projection("t", "t", "timestamp"))
    rows = join_rows(frame, [], extra, AppConfig(), report=True).collect()
    return [(row[TIME], _why(row[NOTE])) for row in rows]


def _why(note: str | None) -> str | None:
    if note is None:
        return None
    flag, reason, detail, _ = note.split(SEPARATOR, 3)
    assert (flag, reason) == ("+", "invalid_time")
    return detail
