from __future__ import annotations

import copy

import pyarrow as pa
import pytest

from braid.core.errors import LogError
from braid.log import Log, write_file
from braid.log.layout import data_path
from tests.log.samples import Counting, rows


def test_a_commit_that_exists_wins(category):
    first, second = (write_file(category, "t", rows(5, seed).to_batches()) for seed in range(2))
    assert category.publish(0, [first], wall_time=1)
    assert not category.publish(0, [second], wall_time=2)
    assert list(category.reader().commit(0).files) == [first.file]


def test_gaps_are_refused(category):
    category.append(rows(1))
    with pytest.raises(LogError, match=r"0002\.json: commit 2 would leave a gap after commit 0"):
        category.publish(2, [])
    assert category.latest() == 0


def test_a_replay_of_a_removed_commit_changes_nothing(category):
    old = copy.deepcopy(category)
    for _ in range(3):
        category.append(rows(1), wall_time=0)
    category.retain(1, needed_from=99)
    assert [old.publish(n, []) for n in range(3)] == [False, False, False]
    assert old.latest() == 2
    assert old.publish(3, [])


def test_a_commit_of_files_that_are_gone_is_refused(category):
    entry = write_file(category, "t", rows(5).to_batches())
    category.storage.remove(data_path(entry.file))
    with pytest.raises(
        LogError, match=rf"{entry.file}: cannot publish commit 0: the data file does not exist"
    ):
        category.publish(0, [entry])
    assert category.latest() == -1


def test_append_takes_the_next_number_even_if_others_append(log, category):
    other = log.open("app.left")
    assert [
        category.append(rows(1)),
        other.append(rows(1)),
        other.append(rows(1)),
        category.append(rows(1)),
    ] == [
        0,
        1,
        2,
        3,
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 9, 20])
def test_the_newest_commit_is_found_from_anywhere(log, category, count):
    for _ in range(count):
        category.append(pa.table({"__hash": pa.array([1])}))
    assert log.open("app.left").latest() == count - 1
    assert category.latest() == count - 1


def test_ten_thousand_commits_do_not_slow_down_the_next(tmp_path):
    """What a reader asks the filesystem for does not depend on how many commits there are."""
    counting = Counting(str(tmp_path))
    log = Log("log", counting.filesystem())
    category = log.create("c", raw=True)

    def cost_of_the_next(reader):
        seen = reader.latest()
        category.publish(seen + 1, [])
        counting.calls.clear()
        assert [commit.id for commit in reader.poll(seen, 100)] == [seen + 1]
        found = dict(counting.calls)
        counting.calls.clear()
        assert reader.poll(seen + 1, 100) == []
        return found, dict(counting.calls)

    reader = category.reader()
    early = cost_of_the_next(reader)
    record = (tmp_path / "log/c/commits" / f"{0:020d}.json").read_bytes()
    for number in range(1, 10_000):
        (tmp_path / "log/c/commits" / f"{number:020d}.json").write_bytes(record)
    assert cost_of_the_next(reader) == early == ({"look": 3, "read": 2}, {"look": 1, "read": 1})
    counting.calls.clear()
    assert log.open("c").latest() == 10_000
    assert counting.calls["look"] < 40
    assert counting.calls["list"] == 0


def test_categories_are_listed_opened_and_dropped(log):
    assert log.categories() == []
    log.create("b", raw=True)
    log.create("a", raw=True).append(pa.table({"value": ["x"]}))
    assert log.categories() == ["a", "b"]
    with pytest.raises(LogError, match=r"category 'c' does not exist\n.*existing categories: a, b"):
        log.open("c")
    log.drop("a")
    assert log.categories() == ["b"]
    assert log.create("a", raw=True).latest() == -1
    with pytest.raises(LogError, match="'c' does not exist"):
        log.drop("c")


def test_create_again_keeps_all(log, category):
    category.append(rows(5))
    assert log.create("app.left", category.schema, shards=4).latest() == 0


def test_chunks_are_read_in_the_order_that_their_writer_says(log: Log) -> None:
    category = log.create("ordered", pa.schema([("n", pa.int64())]), shards=1)
    batches = [pa.table({"n": list(range(start, start + 4))}).to_batches() for start in (0, 4)]
    entries = [write_file(category, "task", part, chunk_rows=2) for part in batches]
    category.publish(0, entries, order=[2, 0, 3, 1])
    reader = log.open("ordered").reader()
    assert [chunk.index for chunk in reader.commit(0).chunks] == [0, 1, 2, 3]
    assert [batch["n"].to_pylist() for batch in reader.rows(0)] == [[4, 5], [0, 1], [6, 7], [2, 3]]
