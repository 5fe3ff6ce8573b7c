"""Folders of Parquet files as sinks."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from braid.core.columns import NOTE
from braid.core.counters import Counters
from braid.home.paths import Home
from braid.home.table_commits import TableCommits
from braid.spark.sinks.table import TableConfig, TableWriter, last_commit
from tests.home.killed import Killed, killed_at
from tests.spark.sinks.configs import config, noted


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


class Writers:
    """Two stages that write one table, commit by commit, and upkeep that folds all records that it may."""

    def __init__(self, home: Home) -> None:
        self.folder = home.root / "warehouse" / "lake"
        settings = {"folder": str(self.folder), "time": None}
        self.stages = {
            stage: TableWriter(config(home, TableConfig, stage=stage, **settings)) for stage in "st"
        }

    def commit(self, stage: str, number: int) -> Counters:
        counts = Counters()
        stored = [self.stages[stage].store(iter([noted([f"{stage}{number}{i}" for i in range(3)])]))]
        self.stages[stage].publish(stored, number, counts)
        return counts

    def fold(self) -> None:
        TableCommits(self.folder).fold(10**9, kept=1, least=1)

    def commit_and_fold(self, number: int) -> None:
        for stage in self.stages:
            self.commit(stage, number)
            self.fold()

    def read(self) -> list[str]:
        """What somebody sees who reads the table now."""
        files = f"{self.folder}/**/*.parquet"
        return [row for (row,) in duckdb.execute(f"SELECT a FROM '{files}' ORDER BY a").fetchall()]

    def written(self, commits: int) -> list[str]:
        return sorted(f"{stage}{number}{i}" for stage in "st" for number in range(commits) for i in range(3))


def test_a_folded_commit_is_not_published_again(home: Home) -> None:
    writers = Writers(home)
    for number in range(3):
        writers.commit_and_fold(number)
    for number in range(3):
        assert (writers.commit("s", number).rows_out, writers.commit("t", number).files_out) == (3, 1)
    assert writers.read() == writers.written(3)
    assert not list((writers.folder / "_staging").iterdir())
    assert [last_commit(writers.folder, stage) for stage in ("s", "t", "u")] == [2, 2, -1]


def test_rows_are_there_once_whenever_a_writer_or_upkeep_is_killed(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, ended = 0, False
    while not ended:
        writers = Writers(Home.at(memory_path / str(step)))
        for number in range(3):
            for stage in writers.stages:
                writers.commit(stage, number)
        with monkeypatch.context() as patch:
            killed_at(step, patch)
            try:
                writers.commit_and_fold(3)
                ended = True
            except Killed:
                step += 1
        seen = writers.read()
        assert set(writers.written(3)) <= set(seen) <= set(writers.written(4))
        assert len(set(seen)) == len(seen)
        for number in (3, 2, 0):  # what was under way is repeated, and so is what never is
            writers.commit_and_fold(number)
        assert writers.read() == writers.written(4)
        assert [last_commit(writers.folder, stage) for stage in writers.stages] == [3, 3]
        assert TableCommits(writers.folder).recorded() == {"s": [3], "t": [3]}
    assert step == 2 * 7 + 8 + 4  # of two commits, and of folding five records and one
