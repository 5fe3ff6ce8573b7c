"""An input is sliced again, and whoever does it is killed at any step: every row is there once, as new.

The records, the log and its retention are the real ones; a few lines stand for what slices.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from braid.core.columns import HASH, TIME
from braid.core.errors import LogError
from braid.core.positions import Position
from braid.engine.slicing_again import (
    BEGIN,
    Outcome,
    Part,
    Progress,
    SlicingAgain,
    is_changing,
    outcome_of,
)
from braid.eventtime.arrival import ChunkOrder
from braid.home.control import SinkStart
from braid.home.paths import AppHome, Home
from braid.home.sliced_again import SlicedPart
from braid.log.category import Category
from braid.log.layout import data_path
from braid.log.records import FileEntry
from braid.log.schema import Settings
from braid.log.writer import write_file
from tests.home.killed import Killed, Mortal
from tests.log.crashing import EAGER
from tests.seeds import seeds

STAGE = "j.left"
NAME = "app.j.left"
TYPES = (pa.string(), pa.int64(), pa.float64())
"""Each update gives the column another type."""
PER_PART = 3


def schema(kind: int) -> pa.Schema:
    columns = [(HASH, pa.int64()), (TIME, pa.int64()), ("v", TYPES[kind % 3]), (f"only{kind}", pa.int8())]
    return pa.schema(columns)


def sliced(numbers: list[int], kind: int) -> pa.RecordBatch:
    """Rows as the slicer of an update writes them."""
    columns = [
        pa.array([number * 7919 * 2**40 % 2**63 for number in numbers], pa.int64()),
        pa.array([number + kind for number in numbers], pa.int64()),
        pa.array(numbers).cast(TYPES[kind % 3]),
        pa.array([kind] * len(numbers), pa.int8()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema(kind))


@dataclass
class Life:
    """A slicer over a list of numbers, whose micro-batches become commits; each update is a plan."""

    app: AppHome
    read: int = 0
    done: int = -1
    kind: int = 0
    lost: set[int] = field(default_factory=set)
    told: list[Progress] = field(default_factory=list)

    @classmethod
    def begin(cls, root: Path, before: int = 0) -> Life:
        """With commits of another writer before the first one of the slicer."""
        life = cls(Home.at(root).application("app"))
        made = life.app.home.log().create(NAME, schema(0), shards=3, time_columns=(TIME,))
        for _ in range(before):
            made.append(sliced([], 0))
        start = SinkStart(target=NAME, first_commit=before, writer="w")
        start.write(life.app.control_file(STAGE, "sink"))
        return life

    @property
    def category(self) -> Category:
        return self.app.home.log().open(NAME)

    def micro_batch(self, count: int) -> None:
        """What the streaming slicer does: its number follows from its checkpoint and its record."""
        start = SinkStart.read(self.app.control_file(STAGE, "sink"))
        assert start is not None
        assert start.writer == "w"
        rows = sliced(list(range(self.read, self.read + count)), self.kind)
        entry = write_file(self.category, STAGE, [rows], 4)
        assert self.category.publish(start.first_commit + self.done + 1, [entry])
        self.read, self.done = self.read + count, self.done + 1

    def slice_again(self, kind: int, since: int | None = None) -> Outcome:
        again = SlicingAgain(
            self.app,
            STAGE,
            f"update {kind}",
            self.done,
            self.category,
            settings(kind),
            ChunkOrder.MEDIAN,
            since,
        )
        outcome = again.run(Numbers(self), self._store(kind, since), self.told.append)
        self.kind = kind
        return outcome

    def _store(self, kind: int, since: int | None) -> Callable[[Part], SlicedPart]:
        def store(part: Part) -> SlicedPart:
            numbers = [int(name) for name in part.files]
            rows = sliced([n for n in numbers if since is None or n + kind >= since], kind)
            draft = self.app.home.log().draft(NAME, schema(kind), shards=2, time_columns=(TIME,))
            entry = write_file(draft, STAGE, [rows] if rows.num_rows else [], 4)
            files = () if entry.file is None else (entry.to_json(),)
            marks = {TIME: part.end.commit}
            return SlicedPart(
                start=part.start,
                end=part.end,
                rows=rows.num_rows,
                gone=part.gone,
                files=files,
                watermarks=marks,
            )

        return store

    def rows(self) -> Counter[tuple[object, ...]]:
        """Everything in the category."""
        reader = self.category.reader()
        found: Counter[tuple[object, ...]] = Counter()
        for number in range(reader.first, reader.latest() + 1):
            for batch in reader.rows(number):
                assert batch.schema == self.category.schema
                found.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        return found

    def check(self) -> None:
        """Every row is there once, as the last update has it; one that the source has lost may not be."""
        found, every = self.rows(), self._expected(range(self.read))
        assert not found - every
        assert not self._expected(set(range(self.read)) - self.lost) - found
        assert self.category.schema == schema(self.kind)

    def _expected(self, numbers: Iterable[int]) -> Counter[tuple[object, ...]]:
        rows = sliced(list(numbers), self.kind)
        return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def settings(kind: int) -> Settings:
    made = Home.at("unused").log().draft(NAME, schema(kind), shards=2, time_columns=(TIME,))
    return made.settings


@dataclass(frozen=True)
class Numbers:
    """What the slicer has read, in parts of a few."""

    life: Life

    @property
    def end(self) -> Position:
        return Position(self.life.read, 0)

    def part(self, start: Position, end: Position | None = None) -> Part:
        after = end or Position(min(start.commit + PER_PART, self.life.read), 0)
        numbers = range(start.commit, after.commit)
        left = tuple(str(number) for number in numbers if number not in self.life.lost)
        return Part(start, after, after, left, len(numbers) - len(left))


@pytest.fixture
def life(memory_path: Path) -> Life:
    found = Life.begin(memory_path, before=2)
    for count in (3, 0, 4):
        found.micro_batch(count)
    return found


def test_new_commits_take_the_place_of_all_old_ones(life: Life) -> None:
    assert life.slice_again(1) == Outcome(Position(7, 0), 7, 0)
    life.check()
    assert [(p.rows, p.read, p.total) for p in life.told] == [(3, 3, 7), (6, 6, 7), (7, 7, 7)]
    category = life.category
    assert (category.first, category.latest(), category.shards) == (5, 7, 2)
    assert category.reader().commit(7).watermarks == {TIME: 7}
    assert category.removed_max_time == {}
    kept = {path.name for path in Path(category.storage.full("data")).iterdir()}
    assert kept == {str(file) for number in (5, 6, 7) for file in category.reader().commit(number).files}
    for count in (2, 0, 5):
        life.micro_batch(count)
    life.check()
    assert list((life.app.root / "again" / STAGE).iterdir()) == []


def test_a_second_call_does_nothing_and_another_update_does_it_anew(life: Life) -> None:
    first = life.slice_again(1)
    life.micro_batch(3)
    assert life.slice_again(1) == first == outcome_of(life.app, STAGE, "update 1")
    assert outcome_of(life.app, STAGE, "update 2") is None
    life.check()
    assert life.slice_again(2).rows == 10
    life.check()


def test_rows_below_a_time_are_left_out_and_remembered_as_removed(life: Life) -> None:
    life.slice_again(1, since=5)
    assert sorted(row[1] for row in life.rows()) == [5, 6, 7]  # type: ignore[type-var]
    assert life.category.removed_max_time == {TIME: 4}
    assert life.category.latest() == 6  # of the first part nothing is left, so it is no commit


def test_without_rows_there_is_a_commit_all_the_same(memory_path: Path) -> None:
    life = Life.begin(memory_path)
    assert life.slice_again(1) == Outcome(Position(0, -1), 0, 0)
    life.micro_batch(2)
    life.check()
    life.lost = {0, 1}
    assert life.slice_again(2) == Outcome(Position(2, -1), 0, 2)
    life.micro_batch(1)
    life.check()


def test_what_is_gone_is_counted_and_what_was_removed_before_stays_known(life: Life) -> None:
    life.category.retain(2**62, 4)
    removed = life.category.removed_max_time
    assert removed == {TIME: 2}
    life.lost = {1, 2}
    assert life.slice_again(1) == Outcome(Position(7, 0), 5, 2)
    life.check()
    assert life.category.removed_max_time == removed


def test_nothing_has_changed_if_the_source_cannot_be_read(life: Life) -> None:
    before, start = life.rows(), SinkStart.read(life.app.control_file(STAGE, "sink"))

    def fails(part: Part) -> SlicedPart:
        if part.start > BEGIN:
            raise OSError("no such disk")
        return life._store(1, None)(part)

    again = SlicingAgain(life.app, STAGE, "u", life.done, life.category, settings(1), ChunkOrder.MEDIAN)
    with pytest.raises(OSError, match="no such disk"):
        again.run(Numbers(life), fails, life.told.append)
    assert not is_changing(life.app, STAGE)
    assert (life.rows(), life.category.first) == (before, 0)
    assert SinkStart.read(life.app.control_file(STAGE, "sink")) == start
    life.micro_batch(2)
    life.check()
    # The slicer has gone on since: what was written then is not all there is now.
    assert again.update == "u"
    life.slice_again(1)
    life.check()


def test_another_writer_is_noticed(life: Life) -> None:
    category = life.category
    with pytest.raises(LogError, match="cannot begin anew with commit 4, since it ends at 4"):
        category.begin_at(4, settings(1), {})
    with pytest.raises(LogError, match="cannot begin anew with commit 6, since it ends at 4"):
        category.begin_at(6, settings(1), {})


def test_it_is_killed_before_every_step(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of every call: each is killed one step later than the one before."""
    mortal, changing = Mortal(monkeypatch), 0
    for steps in range(1000):
        life = Life.begin(memory_path / str(steps), before=1)
        for count in (3, 4, 2):
            life.micro_batch(count)
        kills = 0
        for again in range(1000):
            try:
                with mortal.within(steps + again):
                    outcome = life.slice_again(1)
                break
            except Killed:
                kills += 1
                changing += is_changing(life.app, STAGE)
        assert outcome == Outcome(Position(6, 0), 9, 0)
        life.check()
        life.micro_batch(3)
        life.check()
        if not kills:
            break
    assert 20 < steps < 500
    assert changing > 20


@pytest.mark.parametrize("seed", seeds(12))
def test_updates_follow_each_other_whoever_is_killed(
    memory_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates are given up half-way, files are swept, sources lose rows, commits are compacted."""
    mortal, rng = Mortal(monkeypatch), random.Random(seed)
    life = Life.begin(memory_path, before=rng.randrange(3))
    kind = kills = 0
    for _ in range(40):
        if not is_changing(life.app, STAGE):
            for _ in range(rng.randrange(4)):
                life.micro_batch(rng.randrange(6))
        kind += rng.random() < 0.6 or kind == life.kind
        try:
            with mortal.within(rng.randrange(120)):
                life.slice_again(kind)
        except Killed:
            kills += 1
            if outcome_of(life.app, STAGE, f"update {kind}") is not None:
                life.kind = kind  # it was over, but for what is cleared up
            if rng.random() < 0.3:
                _sweep(life.category)
        else:
            life.check()
        if rng.random() < 0.3:
            life.category.compact(EAGER, now=2**62)
        if rng.random() < 0.2 and life.read:
            life.lost.add(rng.randrange(life.read))
    life.slice_again(kind + 1)
    life.check()
    assert kills


def _sweep(category: Category) -> None:
    """As upkeep does a day later."""
    for path in category.sweep(grace_seconds=-1):
        assert not path.startswith(data_path("")) or not any(
            str(entry.file) in path for entry in _published(category)
        )


def _published(category: Category) -> list[FileEntry]:
    reader = category.reader()
    return [
        entry
        for number in range(reader.first, reader.latest() + 1)
        for entry in reader.commit(number).files.values()
    ]
