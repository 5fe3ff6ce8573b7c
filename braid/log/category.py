"""One category: its settings, publishing, and finding the newest commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from braid.core.errors import LogError
from braid.core.times import now_micros
from braid.log import retention
from braid.log.layout import CATEGORY_FILE, commit_path, data_path
from braid.log.reader import Reader
from braid.log.records import FileEntry, Origin, seal_commit
from braid.log.schema import Settings
from braid.log.storage import Storage
from braid.log.writer import CHUNK_ROWS, write_file

_NONE: Mapping[str, int] = MappingProxyType({})


class Category:
    """A stream of commits with a schema. Cheap to copy to other processes; get one from `Log`."""

    def __init__(self, name: str, storage: Storage, settings: Settings) -> None:
        self.name = name
        self.storage = storage
        self.settings = settings
        self._known = settings.first - 1

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
    def first(self) -> int:
        """The oldest commit that retention has left."""
        return self.settings.first

    @property
    def removed_max_time(self) -> Mapping[str, int]:
        """The latest event time that retention has removed, per time column; empty if it removed none."""
        return self.settings.removed_max_time

    def refresh(self) -> None:
        """Look at the settings again: others may have added columns or removed commits."""
        self.settings = load(self.storage)

    def reader(self) -> Reader:
        """A new reader, with caches of its own."""
        return Reader(self)

    def latest(self) -> int:
        """The newest commit, or `first - 1` if there is none; takes as long after a million commits."""
        while True:
            start = max(self._known, self.first - 1)
            self._known = _gallop(lambda n: self.storage.exists(commit_path(n)), start)
            # Retention may have removed commits that the search started from; `first` then tells.
            self.refresh()
            if self._known >= self.first - 1:
                return self._known

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
        self.refresh()  # a copy that has not heard of retention would take a removed commit for a new one
        if commit < self.first or self.storage.exists(commit_path(commit)):
            return False
        if commit > self.first and not self.storage.exists(commit_path(commit - 1)):
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
        return self.storage.create(commit_path(commit), record)

    def append(
        self,
        rows: pa.Table | pa.RecordBatch,
        *,
        chunk_rows: int = CHUNK_ROWS,
        watermarks: Mapping[str, int] = _NONE,
        wall_time: int | None = None,
    ) -> int:
        """Write rows as the next commit and return its number; tries the next if another appender wins."""
        batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches()
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

    def clear(self, below: int) -> int:
        """Remove the files of retired commits before `below`; how many commits those were."""
        return retention.clear(self, below)

    def sweep(self, grace_seconds: float) -> list[str]:
        """Remove files that no commit refers to and that are older than a grace period; return their paths.

        The grace period must be longer than any write takes, from a file's last byte to its commit.
        """
        return retention.sweep(self, grace_seconds, time.time())


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
