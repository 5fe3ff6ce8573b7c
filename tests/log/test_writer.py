from __future__ import annotations

import copy
import itertools

import numpy as np
import pyarrow as pa
import pytest
from datasketches import kll_doubles_sketch
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.errors import LogError, SchemaError
from braid.log import FileEntry, Log, shard_range, write_file, writer
from braid.log.layout import data_path
from tests.log.samples import SCHEMA, everything, multiset, rows, typed


def test_an_entry_survives_the_way_to_the_driver(category):
    entry = write_file(copy.deepcopy(category), "task-0", rows(500).to_batches(), 200)
    assert FileEntry.from_json(entry.to_json()) == entry
    assert [chunk.rows for chunk in entry.chunks] == [200, 200, 100]
    assert entry.rows == 500


def test_the_parts_of_a_file_follow_each_other_without_gaps(category):
    entry = write_file(category, "t", rows(500).to_batches(), 200)
    position = entry.header[0]
    for block in (block for chunk in entry.chunks for block in chunk.blocks):
        assert block.offset == position
        position += block.length
    assert position == entry.tail[0] < entry.size


def test_a_file_is_one_that_any_arrow_reader_reads(category):
    table = rows(500)
    entry = write_file(category, "t", table.to_batches(), 200)
    with pa.memory_map(category.storage.full(data_path(entry.file))) as source:
        assert multiset(pa.ipc.open_file(source).read_all()) == multiset(table)


def test_no_rows_make_no_file(category):
    entry = write_file(category, "t", [pa.RecordBatch.from_pylist([], SCHEMA)])
    assert entry == FileEntry.empty() == FileEntry.from_json(entry.to_json())
    assert category.publish(0, [entry])
    assert category.reader().commit(0).chunks == ()


def test_one_token_twice_makes_two_files(category):
    first, second = (write_file(category, "same", rows(5).to_batches()) for _ in range(2))
    assert first.file != second.file


def test_blocks_are_sorted_stably_and_split_by_shard(category):
    table = rows(3000, keys=20)
    category.append(table, chunk_rows=1000)
    commit = category.reader().commit(0)
    for chunk in commit.chunks:
        arrived = table.slice(chunk.index * 1000, 1000)
        order = np.argsort(arrived["__hash"].to_numpy(), kind="stable")
        assert (
            category.reader()
            .read(0, chunk.index)
            .equals(arrived.take(order).combine_chunks().to_batches()[0])
        )
        for block in chunk.blocks:
            low, high = shard_range(block.shard, 4)
            assert low <= block.hash_min <= block.hash_max <= high


def test_chunks_tell_their_event_times(category):
    table = rows(5000)
    category.append(table, chunk_rows=2000)
    for chunk in category.reader().commit(0).chunks:
        times = table["__time"].slice(chunk.index * 2000, 2000).combine_chunks()
        stats = chunk.times["__time"]
        values = times.drop_null().to_numpy()
        assert (stats.min, stats.max, stats.nulls) == (values.min(), values.max(), times.null_count)
        sketch = kll_doubles_sketch.deserialize(stats.sketch)
        assert sketch.n == len(values)
        assert abs((values <= sketch.get_quantile(0.5)).mean() - 0.5) < 0.02


def test_a_chunk_without_times_has_an_empty_sketch(category):
    category.append(pa.table({"__hash": pa.array([1, 2])}))
    stats = category.reader().commit(0).chunks[0].times["__time"]
    assert (stats.min, stats.max, stats.nulls) == (None, None, 2)
    assert kll_doubles_sketch.deserialize(stats.sketch).is_empty()


@pytest.mark.parametrize(
    ("kind", "values", "micros"),
    [
        (pa.timestamp("ms", "UTC"), [1, 5, None], (1000, 5000)),
        (pa.timestamp("ns"), [1999, 5_000_001], (1, 5000)),
        (pa.date32(), [0, 1], (0, 86_400_000_000)),
    ],
)
def test_time_columns_of_any_unit_become_microseconds(log, kind, values, micros):
    category = log.create("out", pa.schema([("at", kind)]), time_columns=("at",))
    category.append(pa.table({"at": pa.array(values, kind)}))
    stats = category.reader().commit(0).chunks[0].times["at"]
    assert (stats.min, stats.max) == micros


def test_without_hashes_rows_stay_in_arrival_order(log):
    category = log.create("out", pa.schema([("a", pa.int64())]))
    table = pa.table({"a": [3, 1, 2]})
    category.append(table)
    assert category.shards == 1
    assert category.reader().read(0, 0).equals(table.to_batches()[0])
    with pytest.raises(LogError, match="not sorted by hash"):
        category.reader().read(0, 0, hash_range=(0, 1))


def test_raw_rows_are_texts(log):
    category = log.create("clicks", raw=True)
    category.append(pa.table({"value": ['{"a": 1}', None, "{}"]}))
    assert category.reader().read(0, 0).to_pydict() == {"value": ['{"a": 1}', None, "{}"]}
    assert category.reader().commit(0).chunks[0].times == {}


def test_dictionaries_are_stored_as_what_they_stand_for(log):
    plain = pa.array(["x", "y", None, "x"])
    table = pa.table({"a": plain.dictionary_encode()})
    category = log.create("out", table.schema)
    category.append(table)
    assert category.reader().read(0, 0).column("a").equals(plain)


def test_columns_go_by_name_and_missing_ones_are_null(category):
    category.append(pa.table({"n": pa.array([7], pa.int32()), "__hash": pa.array([1])}))
    assert category.reader().read(0, 0).to_pylist() == [{"__hash": 1, "__time": None, "__key0": None, "n": 7}]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            pa.table({"__hash": [1], "other": [1]}),
            r"app.left: unknown columns other[^$]*existing columns: __hash",
        ),
        (pa.table({"__hash": [1], "n": ["x"]}), r"app.left: column 'n' is stored as int32 .*to string"),
        (pa.table({"__hash": pa.array([1, None])}), r"app.left: column '__hash' holds NULL in 1 of 2 rows"),
        (pa.table([[1], [2]], names=["n", "n"]), r"app.left: a column occurs twice"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_leave_no_file(category, table, message):
    with pytest.raises(SchemaError, match=message):
        category.append(table)
    assert [f.path for f in category.storage.files() if f.path.startswith("data/")] == []


def test_chunks_are_bounded_in_bytes_too(log, monkeypatch):
    monkeypatch.setattr(writer, "CHUNK_BYTES", 1000)
    category = log.create("clicks", raw=True)
    table = pa.table({"value": ["x" * 96] * 25 + ["y" * 5000] * 2 + ["z"] * 50})
    category.append(table)
    chunks = category.reader().commit(0).chunks
    assert sum(chunk.rows for chunk in chunks) == 77
    assert max(chunk.rows for chunk in chunks[:3]) < 25
    assert pa.Table.from_batches(category.reader().rows(0)).equals(table)


@pytest.mark.parametrize(("token", "chunk_rows"), [("a/b", 1), ("ok", 0)])
def test_bad_arguments_are_refused(category, token, chunk_rows):
    with pytest.raises(LogError, match=r"token 'a/b'|chunk_rows is 0"):
        write_file(category, token, rows(1).to_batches(), chunk_rows)


@settings(max_examples=40, deadline=None)
@given(
    hashes=st.lists(st.one_of(st.integers(-2, 2), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=60),
    batch=st.integers(1, 20),
    chunk_rows=st.integers(1, 25),
    shards=st.integers(1, 9),
    cuts=st.lists(st.integers(-(2**63) + 1, 2**63 - 1), max_size=4),
)
def test_any_cut_of_the_hashes_reads_every_row_once(
    tmp_path_factory, hashes, batch, chunk_rows, shards, cuts
):
    category = typed(Log(tmp_path_factory.mktemp("log")), shards=shards)
    table = pa.table({"__hash": pa.array(hashes, pa.int64()), "n": pa.array(range(len(hashes)), pa.int32())})
    entry = write_file(category, "t", table.to_batches(max_chunksize=batch), chunk_rows)
    category.publish(0, [entry])
    reader = category.reader()
    bounds = [-(2**63), *sorted(set(cuts)), 2**63]
    for chunk in reader.commit(0).chunks:
        parts = [
            reader.read(0, chunk.index, hash_range=(low, high - 1), columns=["__hash", "n"])
            for low, high in itertools.pairwise(bounds)
        ]
        arrived = sorted(zip(hashes, range(len(hashes)), strict=True))
        start = chunk.index * chunk_rows
        expected = [(h, n) for h, n in arrived if start <= n < start + chunk_rows]
        found = pa.Table.from_batches(parts)
        assert list(zip(*(c.to_pylist() for c in found.columns), strict=True)) == expected
    assert multiset(everything(reader).select(["__hash", "n"])) == multiset(table)
