"""Slicers in Catalyst and in Arrow agree on which event times are valid, and why others are not."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braid.core.columns import FILE_CLOCK, FILE_PATH, NOTE, TIME
from braid.core.config import AppConfig
from braid.core.times import FAR, MAX_TIME, MIN_TIME, YEAR_1, YEAR_9999_END
from braid.engine.notes import SEPARATOR
from braid.plan.kinds.slicer import JoinInput
from braid.plan.stages.base import Projection
from braid.spark.slicers.arrow_files import ArrowSlicer
from tests.spark.slicers.test_arrow_files import STORED, TARGET, slicer_stage

LIMITS = (0, -FAR, FAR, MIN_TIME, MAX_TIME, -(2**63) + 1, 2**63 - 2, YEAR_1, YEAR_9999_END)
MAX_FUTURE = AppConfig().max_future


def drawn_times() -> list[tuple[int | None, bool]]:
    """Times around every limit and random ones; those with a flag are relative to the clock."""
    draw = random.Random(7)
    times: list[tuple[int | None, bool]] = [(None, False)]
    times += [(limit + step, False) for limit in LIMITS for step in (-1, 0, 1)]
    times += [(MAX_FUTURE + step, True) for step in (-1, 0, 1)]
    times += [(draw.randrange(-(2**63), 2**63) >> draw.randrange(64), False) for _ in range(500)]
    times += [(draw.randrange(-MAX_FUTURE, 3 * MAX_FUTURE), True) for _ in range(100)]
    return times


@pytest.mark.spark
def test_catalyst_and_arrow_agree(spark, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from pyspark.sql import functions as F  # noqa: N812

    from braid.spark.slicers.catalyst import join_rows

    now = "unix_micros(current_timestamp())"
    frame = spark.createDataFrame(drawn_times(), "t bigint, relative boolean").selectExpr(
        f"IF(relative, {now} + t, t) AS t", "'{}' AS __raw", "CAST(NULL AS STRING) AS __note"
    )
    extra = JoinInput((Projection("k", "t", "bigint"),), Projection("t", "t", "bigint"))
    columns = [F.col("t"), F.expr(now).alias("now")]
    rows = join_rows(frame, columns, extra, AppConfig(), report=True).collect()
    assert len({row["now"] for row in rows}) == 1

    slicer = ArrowSlicer.plan(slicer_stage(), STORED, TARGET, MAX_FUTURE)
    assert slicer is not None
    times = pa.array([row["t"] for row in rows], pa.int64()).cast(STORED.field("t").type)
    columns = [times, pa.nulls(len(times), pa.string()), pa.nulls(len(times), pa.float64())]
    pq.write_table(pa.table(columns, schema=STORED), tmp_path / "times.parquet")
    named = pa.record_batch({FILE_PATH: [f"file:{tmp_path}/times.parquet"], FILE_CLOCK: [rows[0]["now"]]})
    [batches] = slicer.files(iter([named]))
    sliced = pa.Table.from_batches(batches)

    assert [row[TIME] for row in rows] == sliced[TIME].to_pylist()
    catalyst = [_detail(row[NOTE]) for row in rows]
    assert catalyst == [_detail(note) for note in sliced[NOTE].to_pylist()]
    assert {None, "missing or unreadable", "too far off", "in the future"} == set(catalyst)


def _detail(note: str | None) -> str | None:
    if note is None:
        return None
    _, reason, detail, _ = note.split(SEPARATOR, 3)
    assert reason == "invalid_time"
    return detail
