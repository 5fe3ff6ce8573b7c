"""Folders of Parquet files as sinks."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa

from braid.core.columns import NOTE
from braid.home.paths import Home
from braid.spark.sinks.table import TableConfig, TableWriter
from tests.spark.sinks.configs import config


def test_tables_are_partitioned_by_hour_and_written_once(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "table"
    writer = TableWriter(config(home, TableConfig, folder=str(target), time="at"))
    hour = 3_600_000_000
    times = pa.array([0, hour - 1, hour, None, 24 * hour], pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict({"at": times, "n": [1, 2, 3, 4, 5], NOTE: pa.nulls(5, pa.string())})
    for _ in range(2):
        writer.commit([writer.write(iter([batch])), writer.write(iter([]))], 0)
    found = duckdb.execute(
        f"SELECT n, dt, hour FROM read_parquet('{target}/**/*.parquet', hive_partitioning = true) ORDER BY n"
    ).fetchall()
    assert [(n, str(day), str(hour).zfill(2)) for n, day, hour in found] == [
        (1, "1970-01-01", "00"),
        (2, "1970-01-01", "00"),
        (3, "1970-01-01", "01"),
        (4, "None", "None"),
        (5, "1970-01-02", "00"),
    ]
    assert not list((target / "_staging").iterdir())


def test_a_table_commit_that_was_cut_short_is_finished_by_the_replay(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "table"
    writer = TableWriter(config(home, TableConfig, folder=str(target), time="at"))
    times = pa.array([0, 7_200_000_000], pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict({"at": times, NOTE: pa.nulls(2, pa.string())})
    writer.commit([writer.write(iter([batch]))], 0)
    moved = sorted(target.glob("dt=*/hour=*/*.parquet"))
    record = json.loads(next((target / "_commits").glob("*.json")).read_text())
    lost = next(name for name, final in record.items() if target / final == moved[1])
    moved[1].rename(target / "_staging" / lost)
    writer.commit([writer.write(iter([batch]))], 0)
    assert sorted(target.glob("dt=*/hour=*/*.parquet")) == moved
    assert not list((target / "_staging").iterdir())
