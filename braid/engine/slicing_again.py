"""Slicing again what a slicer has read, once and in whole: what is written down when.

Rows are written first, part by part, to data files that no commit names: whoever is killed until then, or
cannot read the source, has changed nothing. Then the category is exchanged, which takes a moment: a record
says which numbers the new commits have; the slicer is told to go on behind them; the category takes its new
columns and begins at the first of them; they are published; and the files of the old commits go. Each of
these steps can be repeated. So whoever is killed among them does them all again, and the slicer, whose record
is ahead of its category until the last commit is there, cannot be started before that.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from braid.core.columns import TIME
from braid.core.positions import Position
from braid.engine.chunk_order import chunk_order
from braid.eventtime.arrival import ChunkOrder
from braid.home.control import SinkStart
from braid.home.paths import AppHome
from braid.home.sliced_again import SlicedAgain, SlicedPart
from braid.log.category import Category
from braid.log.layout import data_path
from braid.log.records import FileEntry
from braid.log.schema import Settings

BEGIN = Position(0, 0)
"""Where every source begins."""


@dataclass(frozen=True)
class Part:
    """A part of what was read, which becomes one commit.

    Parameters
    ----------
    start, end
        From `start` up to, but not including `end`: commit and chunk of a category, or a file by its number.
    first
        The first of it that is left, in a category; `end` if nothing is.
    files
        The files that are left of it, by path.
    gone
        How many commits or files are not.
    """

    start: Position
    end: Position
    first: Position
    files: tuple[str, ...] = ()
    gone: int = 0

    @property
    def is_left(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.files) or self.first < self.end


class ReadBefore(Protocol):
    """What a slicer has read."""

    @property
    def end(self) -> Position:
        """How far it has come."""

    def part(self, start: Position, end: Position | None = None) -> Part:
        """What to read next, as it is now: from `start` up to `end`, or as much as makes a good commit."""


@dataclass(frozen=True)
class Progress:
    """How far slicing again has come.

    Parameters
    ----------
    rows
        Rows written.
    read, total
        Commits or files that are done, and that there are.
    """

    rows: int
    read: int
    total: int


@dataclass(frozen=True)
class Outcome:
    """What slicing again has come to.

    Parameters
    ----------
    position
        The last chunk of the new commits; its number is -1 if the last commit has no rows.
    rows
        Rows that were written.
    gone
        Files that the slicer has read and that are gone; or commits that retention has removed from the
        category that it reads, since the category was made.
    """

    position: Position
    rows: int
    gone: int


@dataclass(frozen=True)
class SlicingAgain:
    """The slicing again of one slicer for one update, in steps that can be repeated.

    Parameters
    ----------
    home, stage
        The application, and the slicer's name.
    update
        A name of the update, by which a second call knows what has been done.
    done
        The last micro-batch of the slicer's checkpoint; -1 if there is none.
    category
        What it writes.
    settings
        Columns, shards and time columns that the category is to have.
    order
        How the chunks of a commit are put in order.
    since
        Rows with an earlier event time are left out; None if none are.
    """

    home: AppHome
    stage: str
    update: str
    done: int
    category: Category
    settings: Settings
    order: ChunkOrder
    since: int | None = None

    def run(
        self, source: ReadBefore, store: Callable[[Part], SlicedPart], progress: Callable[[Progress], None]
    ) -> Outcome:
        """Do what is left to do; for an update that is over, that is nothing.

        Parameters
        ----------
        source
            What to slice.
        store
            Slices a part, and writes its rows to data files.
        progress
            Is told after every part.
        """
        over = outcome_of(self.home, self.stage, self.update)
        if over is not None:
            return over
        record = self._begun() or self._begin()
        if record.first is None:
            self._write_rows(record, source, store, progress)
            record = self._decide(record)
        self._write_missing(record, source, store)
        return self._exchange(record)

    # -- records ----------------------------------------------------------------------------------

    def _begun(self) -> SlicedAgain | None:
        """What an earlier call has left, if it was for this update and the slicer has not gone on since."""
        found = SlicedAgain.read(_record(self.home, self.stage))
        same = found is not None and (found.update, found.done) == (self.update, self.done)
        return found if same else None

    def _begin(self) -> SlicedAgain:
        """Begin anew. What was done for another update is nobody's from then on."""
        attempt, half_changed = uuid.uuid4().hex[:12], is_changing(self.home, self.stage)
        record = SlicedAgain(update=self.update, attempt=attempt, done=self.done, half_changed=half_changed)
        self._write(record)
        _forget_parts(self.home, self.stage, besides=attempt)
        return record

    def _write(self, record: SlicedAgain) -> None:
        record.write(_record(self.home, self.stage))

    def _part_file(self, record: SlicedAgain, number: int) -> Path:
        return _folder(self.home, self.stage) / record.attempt / f"{number:08d}.json"

    def _parts(self, record: SlicedAgain) -> Iterator[SlicedPart]:
        """The parts that are written, in order."""
        number = 0
        while (found := SlicedPart.read(self._part_file(record, number))) is not None:
            yield found
            number += 1

    # -- rows -------------------------------------------------------------------------------------

    def _write_rows(
        self,
        record: SlicedAgain,
        source: ReadBefore,
        store: Callable[[Part], SlicedPart],
        progress: Callable[[Progress], None],
    ) -> None:
        """Slice what is left to slice; a single part without rows if there is nothing at all."""
        number, rows, following = 0, 0, BEGIN
        for part in self._parts(record):
            number, rows, following = number + 1, rows + part.rows, part.end
        while number == 0 or following < source.end:
            part = store(source.part(following))
            part.write(self._part_file(record, number))
            number, rows, following = number + 1, rows + part.rows, part.end
            progress(Progress(rows, following.commit, source.end.commit))

    def _decide(self, record: SlicedAgain) -> SlicedAgain:
        """Give numbers to the new commits. Of parts without rows the last one says how far was read."""
        written = [(number, bool(part.files)) for number, part in enumerate(self._parts(record))]
        last, _ = written[-1]
        parts = tuple(number for number, some in written if some or number == last)
        decided = record.model_copy(update={"first": self.category.latest() + 1, "parts": parts})
        self._write(decided)
        return decided

    def _write_missing(
        self, record: SlicedAgain, source: ReadBefore, store: Callable[[Part], SlicedPart]
    ) -> None:
        """Slice parts once more whose files a sweep has taken since, for want of a commit that names them."""
        assert record.first is not None
        for commit, number in enumerate(record.parts, record.first):
            part = self._part(record, number)
            if commit > self.category.latest() and not self._is_there(part):
                store(source.part(part.start, part.end)).write(self._part_file(record, number))

    def _part(self, record: SlicedAgain, number: int) -> SlicedPart:
        found = SlicedPart.read(self._part_file(record, number))
        assert found is not None
        return found

    def _is_there(self, part: SlicedPart) -> bool:
        names = [entry.file for entry in _entries(part) if entry.file is not None]
        return all(self.category.storage.exists(data_path(name)) for name in names)

    # -- the exchange -----------------------------------------------------------------------------

    def _exchange(self, record: SlicedAgain) -> Outcome:
        """Put the new commits in place of the old ones."""
        assert record.first is not None
        last = record.first + len(record.parts) - 1
        totals = [(part.rows, part.gone) for part in self._parts(record)]
        rows, gone = (sum(column) for column in zip(*totals, strict=True))
        self._go_on_behind(last)
        self.category.begin_at(record.first, self.settings, self._removed(gone))
        position = Position(last, -1)
        for commit, number in enumerate(record.parts, record.first):
            position = self._publish(commit, self._part(record, number))
        self.category.clear(record.first)
        over = record.model_copy(update={"position": position, "rows": rows, "gone": gone})
        self._write(over)
        _forget_parts(self.home, self.stage)
        return Outcome(position, rows, gone)

    def _go_on_behind(self, last: int) -> None:
        """Let the next micro-batch of the slicer write the commit after the last new one."""
        path = self.home.control_file(self.stage, "sink")
        before = SinkStart.read(path)
        writer = None if before is None else before.writer
        SinkStart(target=self.category.name, first_commit=last - self.done, writer=writer).write(path)

    def _removed(self, gone: int) -> dict[str, int]:
        """The latest event time that is not in the category any more: what is gone, and what is left out."""
        found = dict(self.category.removed_max_time) if gone else {}
        if self.since is not None:
            found[TIME] = max(self.since - 1, found.get(TIME, self.since - 1))
        return found

    def _publish(self, commit: int, part: SlicedPart) -> Position:
        """Publish a part, if it is not there yet; its last chunk."""
        entries = _entries(part)
        order = chunk_order(entries, self.order)
        self.category.publish(commit, entries, part.watermarks, order=order)
        return Position(commit, sum(len(entry.chunks) for entry in entries) - 1)


def outcome_of(home: AppHome, stage: str, update: str) -> Outcome | None:
    """What slicing again has come to, if it is over."""
    found = SlicedAgain.read(_record(home, stage))
    if found is None or found.update != update or found.position is None:
        return None
    _forget_parts(home, stage)
    return Outcome(found.position, found.rows, found.gone)


def is_changing(home: AppHome, stage: str) -> bool:
    """Whether slicing again was interrupted while the category was changed: it must be ended or done anew."""
    found = SlicedAgain.read(_record(home, stage))
    return found is not None and found.is_changing


def _record(home: AppHome, stage: str) -> Path:
    return home.control_file(stage, "again")


def _folder(home: AppHome, stage: str) -> Path:
    """Where parts are, by attempt; not in the folder of staged files, which is swept."""
    return home.root / "again" / stage


def _forget_parts(home: AppHome, stage: str, besides: str | None = None) -> None:
    folder = _folder(home, stage)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name != besides:
            shutil.rmtree(path, ignore_errors=True)


def _entries(part: SlicedPart) -> list[FileEntry]:
    return [FileEntry.from_json(text) for text in part.files]
