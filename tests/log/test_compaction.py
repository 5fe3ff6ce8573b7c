"""Compaction changes which files there are, and nothing else."""

from __future__ import annotations

import contextlib
import copy
import gc
import random
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from braid.core.times import DAY, SECOND
from braid.log import CompactionConfig, Log, compaction, hash_rows, shard_range, write_file
from braid.log.compaction import plan_merge
from braid.log.reader import Reader
from braid.log.records import Origin
from tests.log.crashing import EAGER
from tests.log.samples import SCHEMA, Counting, rows, typed

NOW = 10**9


@pytest.fixture
def log(memory_path) -> Log:
    return Log(memory_path / "log")


def everything(reader):
    """All that a reader tells, rows and records."""
    last = reader.latest()
    commits = [reader.commit(number) for number in range(reader.first, last + 1)]
    return commits, [
        (commit.id, chunk.index, reader.read(commit.id, chunk.index, hash_range=limits).to_pydict())
        for commit in commits
        for chunk in commit.chunks
        for limits in (None, shard_range(1, 3))
    ]


def fill(category, commits: int, seed: int = 0, wall_time: int = 0) -> None:
    rng = random.Random(seed)
    for number in range(commits):
        entries = [
            write_file(category, f"task{task}", rows(rng.randint(0, 30), rng.getrandbits(32)).to_batches(), 8)
            for task in range(rng.randint(0, 3))
        ]
        chunks = sum(len(entry.chunks) for entry in entries)
        category.publish(
            category.latest() + 1,
            entries,
            {"__time": number},
            wall_time=wall_time + number,
            order=rng.sample(range(chunks), chunks),
            origin=Origin("someone", number),
        )


def files(category) -> int:
    return len(category.storage.files())


def compact_all(category, config=EAGER) -> int:
    calls = 0
    while category.compact(config, NOW):
        calls += 1
    return calls


def test_everything_is_read_as_before_and_from_few_files(log, category):
    fill(category, 20)
    stale = category.reader()
    before = everything(category.reader())
    assert files(category) > 40
    done = category.compact(EAGER, NOW)
    assert (done.commits, done.files_after) == (20, 1)
    assert files(category) == 3  # settings, lock, segment
    assert done.files_before > 40
    assert everything(log.open("app.left").reader()) == before
    assert everything(stale) == before
    fill(category, 20, seed=1)
    before = everything(category.reader())
    assert compact_all(category) == 2
    assert files(category) == 3
    assert everything(log.open("app.left").reader()) == before
    assert everything(stale) == before
    assert len(log.open("app.left").settings.segments) == 1


def test_a_category_without_segments_is_what_it_was_before_there_were_any(category):
    fill(category, 1)
    assert b'"format":1,' in category.storage.read("category.json")
    fill(category, 1)
    compact_all(category)
    assert b'"format":2,' in category.storage.read("category.json")


@pytest.mark.parametrize(
    ("young", "kept", "least", "left"),
    [(0, 0, 2, 0), (4, 0, 2, 3), (0, 2, 2, 2), (0, 0, 11, 10), (9, 0, 2, 8)],
)
def test_young_and_new_commits_stay_as_they_are(category, young, kept, least, left):
    fill(category, 10)
    config = replace(EAGER, min_age=young, keep_commits=kept, min_commits=least)
    category.compact(config, now=10)
    assert category.latest() - category.settings.covered == left


def test_a_call_takes_a_bounded_piece(category):
    fill(category, 30)
    assert category.compact(replace(EAGER, piece_commits=7), NOW).commits == 7
    size = sum(entry.size for entry in category.reader().commit(7).files.values())
    assert category.compact(replace(EAGER, piece_bytes=size or 1), NOW).commits == (1 if size else 2)


def test_the_next_commit_is_found_and_replays_are_known(log, category):
    stale = copy.deepcopy(category)
    fill(category, 5)
    compact_all(category)
    for other in (stale, category, log.open("app.left")):
        assert other.latest() == 4
        assert [other.publish(number, []) for number in range(5)] == [False] * 5
    assert stale.publish(5, [])
    assert category.latest() == 5
    assert category.append(rows(1)) == 6


def test_a_number_that_was_compacted_while_it_was_published_is_not_taken_twice(category, monkeypatch):
    """The record is looked for, then others publish and compact that commit, and only then it is created."""
    late = copy.deepcopy(category)
    create = type(late.storage).create

    def overtaken(storage, path, data):
        monkeypatch.undo()
        fill(category, 4)
        compact_all(category)
        return create(storage, path, data)

    monkeypatch.setattr(type(late.storage), "create", overtaken)
    assert not late.publish(0, [], wall_time=77)
    assert category.reader().commit(0).wall_time == 0
    assert files(category) == 3


def test_segments_are_removed_as_a_whole_and_exactly(category):
    for time in (50, 90, 60, 70, 20, 30):
        category.append(pa.table({"__hash": pa.array([1]), "__time": pa.array([time])}), wall_time=time)
        if time in (90, 70):
            category.compact(replace(EAGER, fanout=99), NOW)
    assert [(s.first, s.last) for s in category.settings.segments] == [(0, 1), (2, 3)]
    assert category.retain(90, 99) == 0
    assert category.retain(91, 1) == 0
    assert category.retain(91, 3) == 2
    assert (category.first, category.removed_max_time) == (2, {"__time": 90})
    assert category.retain(61, 99) == 0
    assert category.retain(99, 5) == 3
    assert (category.first, category.latest(), category.settings.segments) == (5, 5, ())
    assert files(category) == 4
    assert [b.to_pydict()["__time"] for b in category.reader().rows(5)] == [[30]]
    assert category.sweep(-60) == []
    assert category.append(rows(1)) == 6


def test_retired_segments_stay_readable_until_they_are_cleared(log, category):
    fill(category, 4)
    category.compact(EAGER, NOW)
    fill(category, 4, wall_time=50)
    before = everything(category.reader())
    reader = log.open("app.left").reader()
    assert category.retire(51, needed_from=99) == 5
    assert category.latest() == 7
    assert (
        everything(reader) != before
    )  # it has looked at the log again, and begins at the first that is left
    assert [reader.commit(number) for number in range(8)] == before[0]
    assert reader.overlapping("__time", (7, 9), 0, 10**9)[0][0] >= 5
    category.compact(EAGER, NOW)
    fill(category, 3, wall_time=60)
    assert category.clear(2) == 0
    category.compact(replace(EAGER, fanout=99), NOW)
    assert category.clear(99) == 5
    assert [(s.first, s.last) for s in category.settings.segments] == [(5, 7), (8, 10)]
    compact_all(category)
    assert files(category) == 3
    assert category.statistics().commits == 6


def test_retention_that_is_faster_wins(category, monkeypatch):
    fill(category, 6)
    write = compaction.write_commits

    def meanwhile(*arguments):
        entry = write(*arguments)
        category.retain(3, needed_from=99)
        return entry

    monkeypatch.setattr(compaction, "write_commits", meanwhile)
    assert not category.compact(EAGER, NOW)
    assert (category.first, category.latest()) == (3, 5)
    assert category.sweep(-60) == []
    assert len(everything(category.reader())[0]) == 3


def test_of_two_who_compact_one_wins(log, category, monkeypatch):
    fill(category, 6)
    before = everything(category.reader())
    other = log.open("app.left")
    write = compaction.write_commits

    def meanwhile(*arguments):
        entry = write(*arguments)
        monkeypatch.undo()
        assert other.compact(EAGER, NOW)
        return entry

    monkeypatch.setattr(compaction, "write_commits", meanwhile)
    assert not category.compact(EAGER, NOW)
    assert files(category) == 3
    assert everything(category.reader()) == before


def test_a_sweep_leaves_segments_and_removes_what_failed_attempts_left(category, monkeypatch):
    fill(category, 6)
    before = everything(category.reader())
    with monkeypatch.context() as crash:
        crash.setattr(type(category.storage), "remove", lambda self, path: None)
        compact_all(category)
    orphan = category.storage.full("segments/0-5-failed.segment")
    with open(orphan, "wb") as file:  # noqa: PTH123
        file.write(b"half")
    assert len(category.sweep(-60)) > 6
    assert files(category) == 3
    assert everything(category.reader()) == before


def test_new_columns_and_old_blocks_in_one_segment(log, category):
    category.append(rows(10), wall_time=0)
    wider = log.create("app.left", SCHEMA.append(pa.field("extra", pa.int8())))
    wider.append(rows(5).append_column("extra", pa.array([7] * 5, pa.int8())), wall_time=0)
    compact_all(wider)
    fill(wider, 2)
    compact_all(wider)
    reader = log.open("app.left").reader()
    assert len(wider.settings.segments) == 1
    assert reader.read(0, 0, columns=["extra"])["extra"].to_pylist() == [None] * 10
    assert reader.read(1, 0)["extra"].to_pylist() == [7] * 5


def test_raw_categories_and_other_filesystems_are_compacted_too(tmp_path):
    counting = Counting(str(tmp_path))
    remote = Log("log", counting.filesystem())
    raw = remote.create("raw", raw=True)
    for text in "abcdef":
        raw.append(pa.table({"value": [text]}), wall_time=0)
    compact_all(raw)
    assert len(raw.storage.files()) == 2
    assert [b["value"].to_pylist() for n in range(6) for b in raw.reader().rows(n)] == [[t] for t in "abcdef"]
    category = typed(remote)
    fill(category, 6)
    before = everything(category.reader())
    compact_all(category)
    assert everything(remote.open("app.left").reader()) == before
    assert everything(Log(tmp_path / "log").open("app.left").reader()) == before


def test_statistics_tell_what_there_is(category):
    empty = category.statistics()
    assert (empty.commits, empty.rows, empty.oldest_wall_time, empty.times) == (0, 0, None, {})
    for time in (50, 90, 60):
        category.append(
            pa.table({"__hash": pa.array([1, 2]), "__time": pa.array([time, None])}), wall_time=time
        )
    found = category.statistics()
    assert (found.files, found.commits, found.rows, found.segments) == (7, 3, 6, 0)
    assert (found.oldest_wall_time, found.newest_wall_time, found.times) == (50, 90, {"__time": (50, 90)})
    compact_all(category)
    later = category.statistics()
    assert (later.files, later.segments) == (3, 1)
    assert later.bytes == sum(f.size for f in category.storage.files())
    assert replace(later, files=7, segments=0, bytes=found.bytes) == found


def test_the_log_of_an_old_home_is_compacted(memory_path):
    """Commits of version 0.1.0 have other origins, and files without some of today's columns."""
    archive = Path(__file__).parents[1] / "golden" / "v1" / "home.tar.gz"
    with tarfile.open(archive) as home:
        home.extractall(memory_path, filter="data")
    old = Log(next(memory_path.rglob("log")))
    compacted = 0
    for name in old.categories():
        category = old.open(name)
        before = {n: told(category.reader(), n) for n in range(category.first, category.latest() + 1)}
        compacted += category.compact(replace(EAGER, min_commits=1), 2**62).commits
        assert {n: told(old.open(name).reader(), n) for n in before} == before
    assert compacted > 5


# -- the plan ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "start"),
    [
        ([], None),
        ([5], None),
        ([1, 1, 1], None),
        ([1, 1, 1, 1], 0),
        ([9, 1, 1, 1, 1], 1),
        ([100, 9, 9, 9], None),
        ([100, 9, 9, 9, 1], 1),
        ([100, 60, 30], None),
        ([100, 60, 30, 10], 1),
        ([100, 120], None),
        # As many as make a full one, also where full ones were smaller before.
        ([95] * 16, 14),
        ([95, 1, 1, 98], 1),
    ],
)
def test_what_is_merged(sizes, start):
    assert plan_merge(CompactionConfig(segment_bytes=100, fanout=2), sizes) == start


@pytest.mark.parametrize(("retention", "fanout"), [(None, 4), (30 * DAY, 4), (30 * DAY, 1)])
def test_a_year_of_commits_in_few_files_and_few_copies(retention, fanout):
    """A commit every half minute, from empty ones at night to large ones, cut into segments hour by hour."""
    config = CompactionConfig(segment_bytes=1 << 28, fanout=fanout)
    rng = np.random.default_rng(1)
    segments: list[tuple[int, int]] = []  # bytes, newest wall time
    written = arrived = most = 0
    for hour in range(365 * 24):
        load = 1 + np.sin(hour / 24 * 2 * np.pi)
        size = int(rng.exponential(40 << 20) * load) + 1000
        arrived += size
        written += size
        segments.append((size, hour * 3600 * SECOND))
        while (start := plan_merge(config, [size for size, _ in segments])) is not None:
            merged = sum(size for size, _ in segments[start:])
            assert merged < config.segment_bytes + 64 * (40 << 20)
            written += merged
            segments[start:] = [(merged, segments[-1][1])]
        if retention is not None:
            segments = [s for s in segments if s[1] >= hour * 3600 * SECOND - retention]
        most = max(most, len(segments))
    held = arrived if retention is None else arrived * retention / (365 * DAY)
    assert most < 3 * held / config.segment_bytes + 40
    assert written < 6 * arrived


def test_copies_grow_with_the_logarithm_of_the_size():
    config = CompactionConfig(segment_bytes=1 << 60)
    copies = []
    for pieces in (100, 1000, 10_000):
        sizes: list[int] = []
        written = 0
        for _ in range(pieces):
            sizes.append(1)
            written += 1
            while (start := plan_merge(config, sizes)) is not None:
                sizes[start:] = [sum(sizes[start:])]
                written += sizes[-1]
        assert len(sizes) < 6 * np.log2(pieces)
        copies.append(written / pieces)
    assert copies[2] - copies[1] < copies[1] - copies[0] + 1
    assert copies[2] < 8


# -- finding by hash --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_found_by_hash_and_time_wherever_they_are(log, category, seed):
    """The index gives exactly the rows that a scan of segments gives, and all chunks of the tail in reach."""
    rng = np.random.default_rng(seed)
    for part in range(3):
        fill(category, 7, seed=seed * 10 + part)
        if part < 2:
            category.compact(replace(EAGER, fanout=0 if seed % 2 else 99), NOW)
    if seed % 2:
        category.compact(replace(EAGER, min_commits=99), NOW)
    reader = log.open("app.left").reader()
    covered = log.open("app.left").settings.covered
    assert covered == 13
    keys = pa.array([f"key{k}" for k in rng.integers(0, 60, 20)])
    hashes = np.sort(hash_rows([keys]))
    low = rng.integers(0, 10**9, 20)
    high = low + rng.integers(0, 10**9, 20)
    until = (int(rng.integers(0, 21)), int(rng.integers(0, 4)))
    for limits in (None, shard_range(1, 2), shard_range(3, 5)):
        mine = np.ones(20, bool) if limits is None else (hashes >= limits[0]) & (hashes <= limits[1])
        needles = list(zip(hashes[mine], low[mine], high[mine], strict=True))
        found = reader.find(until, hashes[mine], low[mine], high[mine], limits)
        assert [at for at, _ in found] == sorted(at for at, _ in found)
        exact = {at: set(map(int, some)) for at, some in found if some is not None}
        tail = {at for at, some in found if some is None}
        assert all(commit <= covered for commit, _ in exact)
        assert all(commit > covered for commit, _ in tail)
        expected = {}
        for number in range(21):
            for chunk in reader.commit(number).chunks:
                at = (number, chunk.index)
                batch = reader.read(*at, hash_range=limits)
                hits = {
                    row
                    for row, (h, t) in enumerate(
                        zip(batch["__hash"].to_pylist(), batch["__time"].to_pylist(), strict=True)
                    )
                    if t is not None and any(h == n and a <= t <= b for n, a, b in needles)
                }
                if hits and at <= until:
                    expected[at] = hits
        assert exact == {at: hits for at, hits in expected.items() if at[0] <= covered}
        assert tail >= {at for at in expected if at[0] > covered}


def test_time_ranges_are_found_in_segments_and_behind_them(log, category):
    fill(category, 12)
    reader, plain = category.reader(), category.reader()
    expected = plain.overlapping("__time", (11, 3), 10**8, 2 * 10**8)
    category.compact(replace(EAGER, piece_commits=5), NOW)
    category.compact(replace(EAGER, piece_commits=5, fanout=99), NOW)
    assert category.settings.covered == 9
    for each in (reader, plain, log.open("app.left").reader()):
        assert each.overlapping("__time", (11, 3), 10**8, 2 * 10**8) == expected
        assert each.overlapping("nothing", (11, 3), 10**8, 2 * 10**8) == []


def test_what_is_compacted_by_others_meanwhile_is_found(log, category, monkeypatch):
    """Threads share a reader: one may look at the settings again while another one is searching."""
    fill(category, 20)
    category.compact(replace(EAGER, piece_commits=8), NOW)
    reader = log.open("app.left").reader()
    hashes = np.sort(hash_rows([pa.array([f"key{number}" for number in range(60)])]))
    low, high = np.zeros(60, np.int64), np.full(60, 2 * 10**9)
    overlapping = log.open("app.left").reader().overlapping("__time", (19, 9), 0, 2 * 10**9)
    assert category.settings.covered == 7
    segments, turns = Reader._overlapping_segments, []

    def meanwhile(self, *arguments):
        found = list(segments(self, *arguments))
        if self is reader and not turns:
            turns.append(category.compact(replace(EAGER, piece_commits=8, fanout=99), NOW))
            self.refresh()
        return iter(found)

    monkeypatch.setattr(Reader, "_overlapping_segments", meanwhile)
    found = reader.find((19, 9), hashes, low, high)
    assert turns
    assert category.settings.covered == 15
    expected = log.open("app.left").reader().find((19, 9), hashes, low, high)
    assert [at for at, _ in found] == [at for at, _ in expected]
    assert any(8 <= commit <= 15 for (commit, _), _ in expected)
    turns.clear()
    assert reader.overlapping("__time", (19, 9), 0, 2 * 10**9) == overlapping


def test_a_compacted_commit_that_follows_is_seen(category):
    fill(category, 20)
    reader = category.reader()
    category.compact(EAGER, NOW)
    assert category.settings.covered > 10
    assert reader.grown(3)
    assert reader.grown(18)
    assert not reader.grown(19)


# -- all together -----------------------------------------------------------------------------------


class Model:
    """A category that all sorts of things happen to, and what it should hold."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.log = Log(root)
        self.category = typed(self.log)
        self.commits: dict[int, object] = {}
        self.first = 0
        self.readers = [self.category.reader() for _ in range(3)]

    def publish(self) -> None:
        fill(self.category, self.rng.randint(1, 6), self.rng.getrandbits(32), wall_time=len(self.commits))
        for number in range(len(self.commits), self.category.latest() + 1):
            self.commits[number] = told(self.log.open("app.left").reader(), number)

    def compact(self) -> None:
        fanout, most = self.rng.choice([0, 1, 2, 99]), self.rng.choice([3, 1024])
        writer = self.rng.choice([self.category, self.log.open("app.left")])
        writer.compact(replace(EAGER, fanout=fanout, piece_commits=most), NOW)

    def retain(self) -> None:
        self.category.retain(NOW, self.rng.randint(self.first, self.first + 4))
        self.first = self.category.first

    def sweep(self) -> None:
        assert self.category.sweep(-60) == []

    def crash(self) -> None:
        """Compact, and die at some removal of a file; the next one sweeps."""
        left = self.rng.randint(0, 5)

        def remove(storage, path):
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            real(storage, path)

        storage, real = type(self.category.storage), type(self.category.storage).remove
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage, "remove", remove)
            with contextlib.suppress(KeyboardInterrupt):
                self.compact()
        self.log.open("app.left").sweep(-60)

    def read(self) -> None:
        """Whoever reads, with whatever view of the log: the same as ever."""
        place = self.rng.randrange(len(self.readers))
        reader = self.readers[place]
        live = range(self.first, len(self.commits))
        for number in self.rng.sample(live, min(3, len(live))):
            assert told(reader, number) == self.commits[number]
        if self.rng.random() < 0.2:
            self.readers[place] = self.log.open("app.left").reader()

    def check(self) -> None:
        last = len(self.commits) - 1
        for reader in (*self.readers, self.log.open("app.left").reader()):
            assert reader.latest() == last
            assert reader.first == self.first
            found = {number: told(reader, number) for number in range(self.first, last + 1)}
            assert found == {number: self.commits[number] for number in found}
        assert [self.category.publish(number, []) for number in range(last + 1)] == [False] * (last + 1)


def told(reader, number: int):
    """A commit and its rows, bit for bit."""
    commit = reader.commit(number)
    return commit, [reader.read(number, chunk.index).serialize().to_pybytes() for chunk in commit.chunks]


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_everything_that_should_be_there_is_read_as_it_was_written(memory_path, seed):
    model = Model(memory_path, seed)
    actions = [model.publish, model.compact, model.retain, model.sweep, model.crash, model.read]
    for action in model.rng.choices(actions, [3, 6, 1, 1, 1, 6], k=60):
        action()
    model.check()


def test_readers_of_other_threads_go_on_while_one_compacts(category):
    fill(category, 60)
    expected = {number: told(category.reader(), number) for number in range(60)}

    def read(seed: int) -> int:
        rng, reader = random.Random(seed), Log(Path(category.storage.root).parent).open("app.left").reader()
        numbers = [rng.randrange(60) for _ in range(150)]
        return sum(told(reader, number) == expected[number] for number in numbers)

    with ThreadPoolExecutor(2) as threads:
        found = [threads.submit(read, seed) for seed in range(2)]
        compactor = copy.deepcopy(category)
        while compactor.compact(replace(EAGER, piece_commits=4, fanout=1), NOW):
            continue
        assert [done.result() for done in found] == [150, 150]
    assert len(compactor.settings.segments) > 1


def maps(category) -> int:
    """Files of a category that this process has mapped, removed or not."""
    return Path("/proc/self/maps").read_text().count(category.storage.root)


def test_a_reader_lets_go_of_what_was_compacted_and_small_blocks_hold_no_map(category):
    fill(category, 40)
    reader = category.reader()
    held = [reader.read(n, c.index) for n in range(40) for c in reader.commit(n).chunks]
    assert maps(category) > 20
    compact_all(category)
    reader.latest()
    assert maps(category) == 0
    again = [reader.read(n, c.index) for n in range(40) for c in reader.commit(n).chunks]
    assert again == held
    assert maps(category) == 1


def test_large_blocks_come_without_a_copy_from_segments_too(category):
    for seed in range(2):
        category.append(rows(30_000, seed), wall_time=0)
    compact_all(category)
    reader = category.reader()
    reader.commit(1)
    before = maps(category)
    blocks = [reader.read(1, 0, hash_range=shard_range(shard, 4)) for shard in range(4)]
    assert before == maps(category) == 1
    del reader
    gc.collect()
    assert maps(category) == 1
    assert sum(block.num_rows for block in blocks) == 30_000
