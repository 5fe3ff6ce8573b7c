"""Parts of the engine that need no JVM: state keys, notes, letters, tables, the category source, pacing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from braid.core.columns import HASH, NOTE, TIME
from braid.core.config import AppConfig
from braid.core.counters import Counters
from braid.core.errors import LogError
from braid.core.positions import Position
from braid.core.times import MAX_TIME
from braid.engine import dead_letters
from braid.engine.admission import AdmissionConfig
from braid.engine.notes import DROP, Notes, counts_note, note_array
from braid.engine.offsets import OperatorOffset
from braid.eventtime.offset import InputOffset, Offset
from braid.home.paths import Home
from braid.kernels.step import Step
from braid.log.layout import commit_path
from braid.log.records import Commit, seal_commit
from braid.log.writer import write_file
from braid.spark.operators.state_keys import murmur3, state_keys
from braid.spark.sinks.base import SinkConfig
from braid.spark.sinks.blocks import BlocksConfig, BlockWriter
from braid.spark.sinks.table import TableConfig, TableWriter
from braid.spark.sources.category import CategoryStreamReader, Piece
from braid.spark.sources.steps import Reference, StepReader, StepSourceConfig


def test_state_keys_spread_evenly_by_sparks_hash() -> None:
    # SELECT hash(0), hash(1), hash(2), hash(42) in Spark.
    assert [murmur3(value) for value in (0, 1, 2, 42)] == [933211791, -559580957, 1765031574, 29417773]
    for shards, partitions in ((8, 1), (8, 3), (5, 5), (64, 7)):
        keys = state_keys(shards, partitions)
        assert len(set(keys)) == shards
        assert [murmur3(key) % partitions for key in keys] == [
            i * partitions // shards for i in range(shards)
        ]


def test_notes_are_taken_off_the_rows() -> None:
    notes = [None, "-\x1fbad\x1fwhy\x1fraw \x1f text", "+\x1fodd\x1f\x1f{}", counts_note(Counters(matches=1))]
    batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3, 4], NOTE: notes})
    taken = Notes()
    assert [row for rows in taken.strip(iter([batch])) for row in rows.to_pylist()] == [{"a": 1}, {"a": 3}]
    assert taken.counts == [Counters(matches=1)]
    assert taken.reasons() == {"bad": 1, "odd": 1}
    assert [column.to_pylist() for column in taken.columns()] == [
        ["bad", "odd"],
        ["why", ""],
        ["raw \x1f text", "{}"],
    ]


def test_note_arrays_read_back() -> None:
    array = note_array(DROP, pa.array(["late"]), pa.array(["left"]), pa.array(['{"a":1}']))
    taken = Notes()
    assert list(taken.strip(iter([pa.RecordBatch.from_pydict({"a": [1], NOTE: array})]))) == []
    assert taken.reasons() == {"late": 1}
    assert array[0].as_py().startswith(DROP)


def test_letters_of_several_stages_are_published_once_each(home: Home) -> None:
    category = dead_letters.create(home.log(), "app.dead_letter")

    def entry(stage: str) -> object:
        text = pa.array(["x"])
        return dead_letters.write(category, dead_letters.letters(stage, text, text, text))

    first = dead_letters.DeadLetters(category, "a")
    second = dead_letters.DeadLetters(category, "b")
    assert first.publish(3, [entry("a")])
    assert second.publish(0, [entry("b")])
    assert not first.publish(3, [entry("a")])
    restarted = dead_letters.DeadLetters(home.log().open("app.dead_letter"), "a")
    assert not restarted.publish(3, [entry("a")])
    assert restarted.publish(4, [entry("a")])
    assert category.latest() == 2


def config(home: Home, kind: type[SinkConfig], **more: object) -> SinkConfig:
    dead_letters.create(home.log(), "app.dead_letter")
    values = {
        "root": home.log_root,
        "stage": "s",
        "dead_letter": "app.dead_letter",
        "first_commit": 0,
        "metrics": str(home.root / "metrics"),
        **more,
    }
    return kind.from_json(kind(**values).to_json())


def noted(values: list[object], column: str = "a") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({column: values, NOTE: pa.nulls(len(values), pa.string())})


def test_a_replayed_micro_batch_changes_nothing(home: Home) -> None:
    home.log().create("out", pa.schema([("a", pa.int64())]), shards=1, time_columns=())
    writer = BlockWriter(config(home, BlocksConfig, category="out", chunk_rows=100))
    writer.commit([writer.write(iter([noted([1, 2])])), writer.write(iter([]))], 0)
    writer.commit([writer.write(iter([noted([1, 2])]))], 0)
    category = home.log().open("out")
    assert category.latest() == 0
    assert category.reader().commit(0).rows == 2
    assert json.loads((home.root / "metrics" / "s.0.json").read_text())["rows_out"] == 2


def test_a_category_with_another_writer_is_noticed(home: Home) -> None:
    category = home.log().create("out", pa.schema([("a", pa.int64())]), shards=1, time_columns=())
    category.append(pa.table({"a": [7]}))
    writer = BlockWriter(config(home, BlocksConfig, category="out", chunk_rows=100))
    message = writer.write(iter([noted([1])]))
    with pytest.raises(LogError, match="somebody else"):
        writer.commit([message], 0)


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


def test_the_category_source_reads_every_chunk_once(home: Home) -> None:
    category = home.log().create("in", raw=True)
    for start in range(0, 50, 10):
        category.append(pa.table({"value": [str(n) for n in range(start, start + 10)]}), chunk_rows=3)
    reader = CategoryStreamReader(home.log_root, "in", ("value",), max_rows=7, tasks=2)
    offset, seen, batches = reader.initialOffset(), [], 0
    while (end := reader.latestOffset(offset, None)) != offset:
        pieces = reader.partitions(offset, end)
        assert all(isinstance(piece, Piece) for piece in pieces)
        rows = [v for p in pieces for b in reader.read(p) for v in b["value"].to_pylist()]
        assert 1 <= len(rows) <= 7
        seen += rows
        offset, batches = end, batches + 1
    assert seen == [str(n) for n in range(50)]
    assert reader.partitions(offset, offset) == []
    reader.prepareForTriggerAvailableNow()
    category.append(pa.table({"value": ["later"]}))
    assert reader.latestOffset(offset, None) == offset


def paced(home: Home, **options: object) -> tuple[StepReader, Callable[[str, list[int]], None], Path]:
    schema = pa.schema([(HASH, pa.int64()), (TIME, pa.int64())])
    for side in ("left", "right"):
        home.log().create(side, schema, shards=2)
    drain = home.root / "drain"
    admission = AdmissionConfig({"left": "left", "right": "right"}, 10_000_000, AppConfig(**options))
    values = StepSourceConfig(home.log_root, admission, (3, 5), str(drain), str(home.root / "pacing.json"))

    def append(side: str, times: list[int]) -> None:
        rows = pa.table({HASH: pa.array([0] * len(times), pa.int64()), TIME: pa.array(times, pa.int64())})
        home.log().open(side).append(rows)

    return StepReader(StepSourceConfig.from_json(values.to_json())), append, drain


def steps(reader: StepReader, start: dict, end: dict) -> Step:
    (part,) = reader.partitions(start, end)
    assert isinstance(part, Reference)
    (rows,) = reader.read(part)
    assert rows["slot"].to_pylist() == [3, 5]
    assert rows["shard"].to_pylist() == [0, 1]
    return Step.from_text(rows["step"][0].as_py())


def test_a_join_source_admits_drains_and_begins_again(home: Home) -> None:
    reader, append, drain = paced(home)
    start = reader.latestOffset(reader.initialOffset(), None)
    assert reader.latestOffset(start, None) == start
    append("left", [1_000_000, 2_000_000])
    append("right", [1_500_000, 9_000_000])
    first = reader.latestOffset(start, None)
    step = steps(reader, start, first)
    assert step.blocks == {"left": [(0, 0)], "right": [(0, 0)]}
    assert reader.latestOffset(first, None) == first
    drain.touch()
    second = reader.latestOffset(first, None)
    assert (first["at"]["drained"], second["at"]["drained"]) == (False, True)
    step = steps(reader, first, second)
    assert (step.size, step.times["left"], step.epoch) == (0, MAX_TIME, 0)
    assert reader.latestOffset(second, None) == second
    drain.unlink()
    append("left", [3_000_000])
    third = reader.latestOffset(second, None)
    step = steps(reader, second, third)
    assert (step.blocks["left"], step.epoch) == ([(1, 0)], 1)
    assert step.times["left"] < MAX_TIME


def test_the_stream_that_runs_ahead_is_named(home: Home) -> None:
    reader, append, _ = paced(home, slack=5)
    offset = reader.initialOffset()
    hour = 3_600_000_000
    for start in range(0, 4 * hour, hour):
        append("right", list(range(start, start + hour, hour // 500)))
    append("left", list(range(0, hour // 4, hour // 500)))
    for _ in range(10):
        offset = reader.latestOffset(offset, None)
    said = json.loads((home.root / "pacing.json").read_text())
    assert said["paused"] == "right"
    assert "ahead of left" in said["why"]


def test_empty_files_are_not_published(home: Home) -> None:
    category = home.log().create("out", pa.schema([("a", pa.int64())]), shards=1, time_columns=())
    assert write_file(category, "s", []).file is None


def test_ten_thousand_commits_do_not_slow_down_planning(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, append, _ = paced(home)
    for side in ("left", "right"):
        folder = Path(home.log_root) / side
        last = folder / commit_path(9_999)
        last.write_bytes(seal_commit(9_999, [], {}, 0))
        # Nobody may read the others, so that they need not be more than names.
        for number in range(9_999):
            os.link(last, folder / commit_path(number))
    at = Position(9_999, -1)
    inputs = dict.fromkeys(("left", "right"), InputOffset(at, 0, 0))
    offset = OperatorOffset(Offset(inputs)).to_json()
    append("left", [1, 2])
    read: list[int] = []
    unseal = Commit.unseal
    monkeypatch.setattr(Commit, "unseal", lambda data, n, where: read.append(n) or unseal(data, n, where))
    end = reader.latestOffset(offset, None)
    assert steps(reader, offset, end).blocks["left"] == [(10_000, 0)]
    assert set(read) <= {9_999, 10_000}
