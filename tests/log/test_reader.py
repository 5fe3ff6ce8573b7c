from __future__ import annotations

import pyarrow as pa
import pytest

from braid.core.errors import LogError, SchemaError
from braid.log import Log, mapped, reader, shard_range, write_file
from tests.log.samples import SCHEMA, Counting, everything, multiset, rows, typed


def test_chunk_numbers_run_through_the_files_of_a_commit(category):
    tables = [rows(300, seed) for seed in range(3)]
    entries = [write_file(category, f"task-{i}", t.to_batches(), 200) for i, t in enumerate(tables)]
    category.publish(0, entries, {"__time": 17}, wall_time=99)
    commit = category.reader().commit(0)
    assert (commit.id, commit.rows, commit.watermarks, commit.wall_time) == (0, 900, {"__time": 17}, 99)
    assert [chunk.index for chunk in commit.chunks] == [0, 1, 2, 3, 4, 5]
    assert multiset(pa.Table.from_batches([category.reader().read(0, c) for c in (2, 3)])) == multiset(
        tables[1]
    )


def test_a_shard_comes_without_a_copy(category):
    category.append(rows(1000))
    reader = category.reader()
    before = pa.total_allocated_bytes()
    shard = [reader.read(0, 0, hash_range=shard_range(s, 4)) for s in range(4)]
    assert pa.total_allocated_bytes() - before < 1000
    assert sum(batch.num_rows for batch in shard) == 1000


def test_a_range_without_rows_is_empty_with_all_columns(category):
    category.append(pa.table({"__hash": pa.array([5])}))
    batch = category.reader().read(0, 0, hash_range=(6, 9))
    assert batch.num_rows == 0
    assert batch.schema == category.schema


def test_columns_come_in_the_order_asked_for(category):
    category.append(rows(10))
    assert category.reader().read(0, 0, columns=["n", "__hash"]).schema.names == ["n", "__hash"]


def test_old_blocks_have_null_in_new_columns(log, category):
    category.append(rows(10))
    reader = category.reader()
    newer = log.create("app.left", pa.schema([("__hash", pa.int64()), ("extra", pa.list_(pa.string()))]))
    newer.append(pa.table({"__hash": pa.array([1]), "extra": pa.array([["x"]])}))
    assert reader.read(0, 0, columns=["extra"]).to_pydict() == {"extra": [None] * 10}
    assert reader.read(1, 0, columns=["extra", "n"]).to_pylist() == [{"extra": ["x"], "n": None}]
    assert everything(log.open("app.left").reader()).schema.names == [*SCHEMA.names, "extra"]


def test_a_reader_that_was_open_before_a_column_was_added_sees_it(log, category):
    reader = category.reader()
    log.create("app.left", pa.schema([("extra", pa.int8())])).append(
        pa.table({"__hash": pa.array([1]), "extra": pa.array([3], pa.int8())})
    )
    assert reader.read(0, 0).schema.names == [*SCHEMA.names, "extra"]


def test_unknown_columns_are_named_with_those_that_exist(category):
    category.append(rows(10))
    with pytest.raises(SchemaError, match=r"column 'nn' does not exist\n.*existing columns: __hash, __time"):
        category.reader().read(0, 0, columns=["nn"])


def test_commits_and_chunks_that_do_not_exist_are_named(category):
    category.append(rows(10))
    with pytest.raises(LogError, match=r"chunk 1 does not exist[^$]*has 1 chunks"):
        category.reader().read(0, 1)
    with pytest.raises(LogError, match=r"0001\.json: cannot read: the file does not exist"):
        category.reader().read(1, 0)


def test_poll_gives_what_is_new_up_to_a_limit(category):
    reader = category.reader()
    assert (reader.first, reader.latest(), reader.poll(-1, 10)) == (0, -1, [])
    for seed in range(5):
        category.append(rows(3, seed))
    assert [commit.id for commit in reader.poll(-1, 3)] == [0, 1, 2]
    assert [commit.id for commit in reader.poll(2, 10)] == [3, 4]
    assert reader.poll(4, 10) == []


def test_a_reader_left_behind_by_retention_is_told(category):
    reader = category.reader()
    for seed in range(4):
        category.append(rows(3, seed), wall_time=seed)
    category.retain(3, needed_from=3)
    with pytest.raises(LogError, match=r"commits 1 to 2 were removed by retention"):
        reader.poll(0, 10)
    assert [commit.id for commit in reader.poll(2, 10)] == [3]


def test_any_filesystem_reads_the_same(tmp_path):
    log = Log("log", Counting(str(tmp_path)).filesystem())
    category = typed(log)
    table = rows(1000)
    category.append(table, chunk_rows=300)
    category.append(table)
    assert multiset(everything(log.open("app.left").reader())) == multiset(pa.concat_tables([table, table]))
    assert multiset(everything(Log(tmp_path / "log").open("app.left").reader())) == multiset(
        pa.concat_tables([table, table])
    )


def test_blocks_are_verified_once_while_their_file_is_open(category, monkeypatch):
    category.append(rows(1000), chunk_rows=100)
    verified = []
    real = mapped.checksum
    monkeypatch.setattr(mapped, "checksum", lambda data: verified.append(len(data)) or real(data))
    monkeypatch.setattr(reader, "BLOCKS_KEPT", 1)
    opened = category.reader()
    everything(opened)
    blocks = sum(len(chunk.blocks) for chunk in opened.commit(0).chunks)
    assert len(verified) == blocks + 2
    everything(opened)
    assert len(verified) == blocks + 2


def test_a_reader_keeps_few_bytes_however_much_it_reads(category, monkeypatch):
    for _ in range(20):
        category.append(rows(1000))
    monkeypatch.setattr(reader, "BYTES_KEPT", 100_000)
    opened = category.reader()
    assert everything(opened).num_rows == 20_000
    assert sum(block.nbytes for block in opened._blocks._entries.values()) <= 100_000
    assert sum(file.size for file in opened._files._entries.values()) <= 100_000
