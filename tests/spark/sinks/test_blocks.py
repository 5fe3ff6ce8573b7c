"""Categories as sinks: each micro-batch once."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from braid.core.columns import NOTE
from braid.core.errors import LogError, RunError
from braid.core.positions import Position
from braid.engine.notes import DROP, note_array
from braid.engine.offsets import ReadOffset
from braid.engine.output_watermarks import SlicerWatermarks
from braid.home.counted import Counted
from braid.home.paths import Home
from braid.log.writer import write_file
from braid.spark.sinks.blocks import BlocksConfig, BlockWriter
from braid.spark.sources.category import CategoryStreamReader
from tests.spark.sinks.configs import config, noted


def test_a_replayed_micro_batch_changes_nothing(home: Home) -> None:
    home.log().create("out", pa.schema([("a", pa.int64())]), shards=1, time_columns=())
    writer = BlockWriter(config(home, BlocksConfig, category="out", chunk_rows=100))
    writer.commit([writer.write(iter([noted([1, 2])])), writer.write(iter([]))], 0)
    # A lookup may have found something else this time: what is published counts.
    writer.commit([writer.write(iter([noted([1, 2, 3])]))], 0)
    category = home.log().open("out")
    assert category.latest() == 0
    assert category.reader().commit(0).rows == 2
    assert json.loads((home.root / "metrics" / "s.0.json").read_text())["rows_out"] == 2


def test_what_a_filter_left_out_is_counted_by_what_the_source_has_read(home: Home) -> None:
    source = home.log().create("in", pa.schema([("t", pa.int64())]), shards=1, time_columns=())
    for _ in range(3):
        source.append(pa.table({"t": range(5)}))
    home.log().create("out", pa.schema([("a", pa.int64())]), shards=1, time_columns=())
    told = str(home.root / "read.json")
    writer = BlockWriter(config(home, BlocksConfig, category="out", chunk_rows=100, read_file=told))
    reader = CategoryStreamReader(home.log_root, "in", ("t",), max_rows=7, tasks=2, read_file=told)
    bad = note_array(DROP, pa.array(["malformed_json"]), pa.array([""]), pa.array(["x"]))
    rows = pa.RecordBatch.from_pydict(
        {"a": [1, 2, 3], NOTE: pa.concat_arrays([bad, pa.nulls(2, pa.string())])}
    )
    reader.partitions(ReadOffset(Position(1, 0)).to_json(), ReadOffset(Position(3, 0)).to_json())
    writer.commit([writer.write(iter([rows]))], 0)
    counted = Counted.read(home.root / "metrics" / "s.0.json")
    assert counted is not None
    found = counted.counts
    assert (found.rows_in, found.rows_out, found.filtered, found.refused) == (10, 2, 7, 1)
    assert found.dead == {"malformed_json": 1}


def test_a_category_with_another_writer_is_noticed(home: Home) -> None:
    category = home.log().create("out", pa.schema([("a", pa.int64())]), shards=1, time_columns=())
    category.append(pa.table({"a": [7]}))
    writer = BlockWriter(config(home, BlocksConfig, category="out", chunk_rows=100))
    message = writer.write(iter([noted([1])]))
    with pytest.raises(LogError, match="somebody else"):
        writer.commit([message], 0)


def test_empty_files_are_not_published(home: Home) -> None:
    category = home.log().create("out", pa.schema([("a", pa.int64())]), shards=1, time_columns=())
    assert write_file(category, "s", []).file is None


def test_watermarks_follow_from_how_far_the_source_says_it_reads(home: Home) -> None:
    source = home.log().create("in", pa.schema([("t", pa.int64())]), shards=1, time_columns=())
    source.publish(0, [], {"t": 5})
    source.publish(1, [], {"t": 9})
    home.log().create("out", pa.schema([("a", pa.int64())]), shards=1, time_columns=())
    told = home.root / "read.json"
    marks = SlicerWatermarks("in", (("a", "t"),))
    more = {"category": "out", "chunk_rows": 100, "watermarks": marks, "read_file": str(told)}
    writer = BlockWriter(config(home, BlocksConfig, **more))
    message = writer.write(iter([noted([1])]))
    with pytest.raises(RunError, match="has not said how far"):
        writer.commit([message], 0)
    reader = CategoryStreamReader(home.log_root, "in", ("t",), max_rows=7, tasks=2, read_file=str(told))
    for batch, commit in enumerate((1, 2)):
        reader.partitions(reader.initialOffset(), ReadOffset(Position(commit, 0)).to_json())
        writer.commit([message], batch)
    log = home.log().open("out").reader()
    assert [log.commit(number).watermarks for number in (0, 1)] == [{"a": 5}, {"a": 9}]
