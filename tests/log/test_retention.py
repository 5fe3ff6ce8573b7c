from __future__ import annotations

import os

import pyarrow as pa
import pytest

from braid.core.errors import LogError
from braid.log import Log, write_file
from braid.log.layout import commit_path, data_path
from tests.log.crashing import EAGER
from tests.log.samples import Counting, everything, multiset, rows, typed


def age(category, path, seconds=3600):
    full = category.storage.full(path)
    then = os.stat(full).st_mtime - seconds  # noqa: PTH116
    os.utime(full, (then, then))


def data_files(category):
    return {f.path for f in category.storage.files() if f.path.startswith("data/")}


@pytest.mark.parametrize(
    ("before", "needed", "first"), [(3, 99, 3), (99, 2, 2), (99, 99, 5), (0, 99, 0), (99, 0, 0)]
)
def test_only_commits_that_are_old_and_not_needed_go(category, before, needed, first):
    tables = [rows(20, seed) for seed in range(5)]
    for wall_time, table in enumerate(tables):
        category.append(table, wall_time=wall_time)
    assert category.retain(before, needed) == first
    assert (category.first, category.latest()) == (first, 4)
    left = pa.concat_tables([tables[0].slice(0, 0), *tables[first:]])
    assert multiset(everything(category.reader())) == multiset(left)
    assert len(data_files(category)) == 5 - first
    assert category.append(rows(1)) == 5


def test_an_old_commit_behind_a_young_one_stays(category):
    for wall_time in (1, 9, 1):
        category.append(rows(1), wall_time=wall_time)
    assert category.retain(5, 99) == 1
    assert category.first == 1


def test_the_latest_removed_event_time_is_remembered(log, category):
    for time in (50, 70, 60):
        category.append(pa.table({"__hash": pa.array([1]), "__time": pa.array([time])}), wall_time=time)
    assert log.open("app.left").removed_max_time == {}
    for _ in range(2):
        category.retain(70, 99)
        assert log.open("app.left").removed_max_time == {"__time": 50}
    category.retain(99, 99)
    assert log.open("app.left").removed_max_time == {"__time": 70}


def test_rows_that_a_reader_has_mapped_stay_readable(category):
    table = rows(100)
    category.append(table, wall_time=0)
    batch = category.reader().read(0, 0)
    category.retain(1, 1)
    assert data_files(category) == set()
    assert multiset(pa.Table.from_batches([batch])) == multiset(table)


def test_a_sweep_removes_old_orphans_only(category):
    category.append(rows(10))
    published = data_files(category)
    old, young = (data_path(write_file(category, "t", rows(5).to_batches()).file) for _ in range(2))
    for path in (*published, old):
        age(category, path)
    assert category.sweep(600) == [old]
    assert data_files(category) == {*published, young}
    assert everything(category.reader()).num_rows == 10


def test_a_sweep_finishes_what_a_crashed_retention_began(category, monkeypatch):
    for _ in range(3):
        category.append(rows(10), wall_time=0)
    monkeypatch.setattr(type(category.storage), "remove", lambda self, path: None)
    category.retain(1, needed_from=2)
    monkeypatch.undo()
    for file in category.storage.files():
        age(category, file.path)
    removed = category.sweep(600)
    assert removed[:2] == [commit_path(0), commit_path(1)]
    assert len(removed) == 4
    assert everything(category.reader()).num_rows == 10
    assert category.sweep(600) == []


def test_a_file_published_during_a_sweep_stays(category, monkeypatch):
    """The sweep lists files before it reads commits, so a commit in between is seen."""
    entry = write_file(category, "t", rows(5).to_batches())
    age(category, data_path(entry.file))
    listing = type(category.storage).files

    def publish_meanwhile(storage):
        found = listing(storage)
        category.publish(0, [entry])
        return found

    monkeypatch.setattr(type(category.storage), "files", publish_meanwhile)
    assert category.sweep(600) == []
    assert everything(category.reader()).num_rows == 5


def test_upkeep_works_on_any_filesystem(tmp_path):
    category = typed(Log("log", Counting(str(tmp_path)).filesystem()))
    for _ in range(2):
        category.append(rows(10), wall_time=0)
    write_file(category, "t", rows(5).to_batches())
    assert category.retain(1, needed_from=1) == 1
    assert len(category.sweep(-60)) == 1
    assert everything(category.reader()).num_rows == 10


def test_retired_commits_stay_readable_until_they_are_cleared(log, category):
    """A reader that looked at the log just before still finds what it was about to read."""
    tables = [rows(20, seed) for seed in range(4)]
    for wall_time, table in enumerate(tables):
        category.append(table, wall_time=wall_time)
    before = log.open("app.left").reader()
    assert category.retire(3, needed_from=2) == 2
    assert log.open("app.left").first == 2
    assert multiset(pa.Table.from_batches([before.read(0, 0)])) == multiset(tables[0])
    assert category.clear(1) == 1
    assert category.clear(99) == 1
    assert category.clear(99) == 0
    assert len(data_files(category)) == 2
    assert multiset(everything(category.reader())) == multiset(pa.concat_tables(tables[2:]))


def test_clearing_goes_on_where_a_crash_has_ended_it(category, monkeypatch):
    for _ in range(4):
        category.append(rows(10), wall_time=0)
    category.retire(1, needed_from=3)
    remove, left = type(category.storage).remove, [3]

    def crash(storage, path):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        remove(storage, path)

    monkeypatch.setattr(type(category.storage), "remove", crash)
    with pytest.raises(KeyboardInterrupt):
        category.clear(3)
    monkeypatch.undo()
    assert category.clear(3) == 2
    assert len(data_files(category)) == 1
    assert everything(category.reader()).num_rows == 10


def test_a_category_begins_anew_with_other_columns(log, category):
    for number in range(6):
        category.append(rows(20, seed=number), wall_time=number)
    while category.compact(EAGER, now=10**9):
        continue
    category.append(rows(5, seed=6), wall_time=6)
    other = pa.schema([("__hash", pa.int64()), ("n", pa.string())])
    draft = log.draft(category.name, other, shards=2)
    entry = write_file(draft, "again", pa.table({"__hash": [3, 1], "n": ["c", "a"]}, other).to_batches())
    assert everything(category.reader()).num_rows == 125  # a draft changes nothing
    for _ in range(2):
        category.begin_at(7, draft.settings, {"__time": 9})
        assert (category.first, category.latest(), category.schema) == (7, 6, other)
    for _ in range(2):
        category.publish(7, [entry])
        category.begin_at(7, draft.settings, {"__time": 9})
        category.clear(7)
    found = log.open(category.name)
    assert everything(found.reader()).to_pydict() == {"__hash": [1, 3], "n": ["a", "c"]}
    assert (found.removed_max_time, found.shards) == ({"__time": 9}, 2)
    assert len(data_files(found)) == 1
    assert not found.settings.segments
    with pytest.raises(LogError, match="cannot begin anew with commit 5, since it ends at 7"):
        found.begin_at(5, draft.settings, {})
