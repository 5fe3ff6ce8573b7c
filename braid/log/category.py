"""One category: its settings, publishing, and finding the newest commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from types import MappingProxyType

import pyarrow as pa

from braid.core.errors import LogError
from braid.core.owner import NOBODY, Owner
from braid.core.times import now_micros
from braid.log import compaction, retention
from braid.log.compaction import Compacted, CompactionConfig
from braid.log.layout import CATEGORY_FILE, commit_path, data_path
from braid.log.reader import Reader
from braid.log.records import FileEntry, Origin, seal_commit
from braid.log.schema import Settings
from braid.log.statistics import CategoryStatistics, measure
from braid.log.storage import Storage
from braid.log.writer import CHUNK_ROWS, write_file

_NONE: Mapping[str, int] = MappingProxyType({})


class Category:
    """A stream of commits with a schema. Cheap to copy to other processes; get one from `Log`."""

    def __init__(self, name: str, storage: Storage, settings: Settings) -> None:
        self.name = name
        self.storage = storage
        self.settings = settings
        self._known = settings.covered
        self._stored = b""
        self._looking = Lock()

    def __reduce__(self) -> tuple[type[Category], tuple[str, Storage, Settings]]:
        """Copies look at the log for themselves."""
        return Category, (self.name, self.storage, self.settings)

    @property
    def schema(self) -> pa.Schema:
        """Columns by name, as of the last look at the log."""
        return self.settings.schema

    @property
    def shards(self) -> int:
        """How many shards new rows are split into."""
        return self.settings.shards

    @property
    def time_columns(self) -> tuple[str, ...]:
        """Columns whose event times are sketched per chunk, where the schema has them."""
        return self.settings.time_columns

    @property
    def raw(self) -> bool:
        """Whether the rows are JSON texts in one column."""
        return self.settings.raw

    @property
    def owner(self) -> Owner | None:
        """The application that writes it; None if it is open to all, `NOBODY` if it was released."""
        return self.settings.owner

    def release(self) -> None:
        """Leave the category to whoever writes to it next."""
        with self.storage.lock():
            self.replace_settings(replace(load(self.storage), owner=NOBODY))

    @property
    def first(self) -> int:
        """The oldest commit that retention has left."""
        return self.settings.first

    @property
    def removed_max_time(self) -> Mapping[str, int]:
        """The latest event time that retention has removed, per time column; empty if it removed none."""
        return self.settings.removed_max_time

    def refresh(self) -> None:
        """Look at the settings again: others may have added columns, or removed or compacted commits.

        Of threads that look at once, one after the other does: settings never become older.
        """
        with self._looking:
            stored = self.storage.read(CATEGORY_FILE)
            if stored != self._stored:
                self.settings = Settings.unseal(stored, self.storage.full(CATEGORY_FILE))
                self._stored = stored

    def replace_settings(self, settings: Settings) -> None:
        """Store other settings; the caller holds the lock of the storage."""
        stored = settings.seal()
        with self._looking:
            self.storage.replace(CATEGORY_FILE, stored)
            self.settings, self._stored = settings, stored

    def reader(self) -> Reader:
        """A new reader, with caches of its own."""
        return Reader(self)

    def latest(self) -> int:
        """The newest commit, or `first - 1` if there is none; takes as long after a million commits."""
        while True:
            start = max(self._known, self.settings.covered)
            found = _gallop(lambda n: self.storage.exists(commit_path(n)), start)
            # Commits that the search started from may have been removed or compacted; the settings then tell.
            self.refresh()
            if found >= self.settings.covered:
                self._known = found
                return found

    def publish(
        self,
        commit: int,
        entries: Sequence[FileEntry],
        watermarks: Mapping[str, int] = _NONE,
        wall_time: int | None = None,
        order: Sequence[int] | None = None,
        origin: Origin | None = None,
    ) -> bool:
        """Make files a commit, all or nothing; False, and nothing changes, if the commit exists already.

        Parameters
        ----------
        commit
            Its number, which must follow the newest one. A number that is taken, or was before retention
            removed it, is a replay.
        entries
            What `write_file` returned, in task order. A file belongs to one commit only.
        watermarks
            Watermarks to pass on, per time column, in microseconds.
        wall_time
            Microseconds since the epoch; now if None.
        order
            Chunk numbers, as they run through the files, in the order in which chunks are to be read: tasks
            that ran side by side have no order of arrival among them.
        origin
            Of a category with many writers: which one this is, and its own number of the commit.
        """
        if self.storage.exists(commit_path(commit)) or self._overtaken(commit):
            return False
        if commit > self.settings.covered + 1 and not self.storage.exists(commit_path(commit - 1)):
            latest = self.latest()
            if commit <= latest:
                return False
            raise LogError(
                f"commit {commit} would leave a gap after commit {latest}",
                where=self.storage.full(commit_path(commit)),
                hint="commits count up by one; check that the writer's checkpoint belongs to this log",
            )
        for entry in entries:
            if entry.file is not None and not self.storage.exists(data_path(entry.file)):
                raise LogError(
                    f"cannot publish commit {commit}: the data file does not exist",
                    where=self.storage.full(data_path(entry.file)),
                    hint="it was removed or swept; write it again, or sweep with a longer grace period",
                )
        now = now_micros() if wall_time is None else wall_time
        record = seal_commit(commit, entries, watermarks, now, order, origin)
        if not self.storage.create(commit_path(commit), record):
            return False
        if self._overtaken(commit):
            # Another one had the number, and its record was compacted after we had looked for it.
            self.storage.remove(commit_path(commit))
            return False
        return True

    def _overtaken(self, commit: int) -> bool:
        """Whether a commit has been removed or compacted. Ask after having missed its record, not before."""
        self.refresh()
        return commit <= self.settings.covered

    def append(
        self,
        rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        chunk_rows: int = CHUNK_ROWS,
        watermarks: Mapping[str, int] = _NONE,
        wall_time: int | None = None,
    ) -> int:
        """Write rows as the next commit and return its number; tries the next if another appender wins.

        Batches may be more than fit into memory: they are written as they come, and published together.
        """
        batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
        batches = [batches] if isinstance(batches, pa.RecordBatch) else batches
        entry = write_file(self, "append", batches, chunk_rows)
        while not self.publish(commit := self.latest() + 1, [entry], watermarks, wall_time):
            continue
        return commit

    def retain(self, before_wall_time_us: int, needed_from: int) -> int:
        """Remove the commits that are both older than a wall-clock time and below `needed_from`.

        Returns how many were removed. Consumers that read on must pass the lowest commit they still need.
        """
        return retention.retain(self, before_wall_time_us, needed_from)

    def retire(self, before_wall_time_us: int, needed_from: int) -> int:
        """Do the first half of `retain`, where others may be reading: let nobody begin to read these commits.

        `clear` is the other half, once whoever looked at the log before has read what they were about to.
        """
        return retention.retire(self, before_wall_time_us, needed_from)

    def begin_at(self, first: int, settings: Settings, removed_max_time: Mapping[str, int]) -> None:
        """Let the category begin anew, with other columns, at a commit that is not there yet.

        Nobody begins to read the commits before it any more; `clear` removes their files. To call it again
        changes nothing.

        Parameters
        ----------
        first
            The number of the next commit.
        settings
            Columns, shards and time columns of the commits to come.
        removed_max_time
            The latest event time that the commits to come lack, per time column.
        """
        retention.begin_at(self, first, settings, removed_max_time)

    def clear(self, below: int) -> int:
        """Remove the files of retired commits before `below`; how many commits those were."""
        return retention.clear(self, below)

    def sweep(self, grace_seconds: float) -> list[str]:
        """Remove files that no commit refers to and that are older than a grace period; return their paths.

        The grace period must be longer than any write takes, from a file's last byte to its commit.
        """
        return retention.sweep(self, grace_seconds, time.time())

    def compact(self, config: CompactionConfig, now: int) -> Compacted:
        """Do the next piece of compaction, if there is any; call again until nothing was done.

        Old commits become segments, and small segments larger ones; what they hold, and how it is read, stays
        the same. Others may read, write and compact meanwhile: of two who do the same work, one wins. A call
        copies at most about `config.piece_bytes` of commits, or `config.segment_bytes` of segments.

        Parameters
        ----------
        config
            When to compact what.
        now
            Wall-clock time in microseconds, which commits are old or young by.
        """
        return compaction.compact(self, config, now)

    def statistics(self) -> CategoryStatistics:
        """How large the category is. Lists files, and reads the records of commits that are in no segment."""
        return measure(self)


def load(storage: Storage) -> Settings:
    """The settings stored in a category's folder."""
    return Settings.unseal(storage.read(CATEGORY_FILE), storage.full(CATEGORY_FILE))


def _gallop(exists: Callable[[int], bool], start: int) -> int:
    """The last number that exists, at or after `start`, in a run without gaps; `start` counts as existing."""
    step = 1
    while exists(start + step):
        start += step
        step *= 2
    # Now start exists and start + step does not.
    while step > 1:
        step //= 2
        if exists(start + step):
            start += step
    return start
