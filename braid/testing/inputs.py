"""An input of a simulated join: a category of a real log, filled as rows arrive."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

import pyarrow as pa

from braid.core.columns import HASH, KEY, TIME
from braid.core.config import AppConfig
from braid.core.positions import Position
from braid.core.side import Side
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.validity import valid_times
from braid.log import Commit, Log, hash_rows, write_file
from braid.testing.streams import Stream

_SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.int64()), ("id", pa.int64())])


class SimulatedInput:
    """What a slicer writes and a join reads of one stream; column `id` is the row's number in the stream."""

    def __init__(self, log: Log, side: Side, stream: Stream, options: AppConfig) -> None:
        self.category = log.create(side.value, _SCHEMA, options.shards)
        self.reader = self.category.reader()
        self._options = options
        key = pa.array(stream.key)
        ids = pa.array(range(len(stream)), pa.int64())
        self._rows = pa.table([hash_rows([key]), stream.event_time, key, ids], schema=_SCHEMA)
        self._commits = 0
        self._records: list[ChunkTimes] = []
        self._waiting: list[Position] = []

    def publish(self, start: int, stop: int, now: int) -> None:
        """Write some rows as the next commit, and read its record as a join does."""
        rows = self._rows.slice(start, stop - start)
        times = valid_times(rows[TIME], now, self._options.max_future)
        batches = rows.set_column(1, _SCHEMA.field(TIME), times).combine_chunks().to_batches()
        entry = write_file(self.category, f"c{self._commits}", batches, self._options.chunk_rows)
        self.category.publish(self._commits, [entry], wall_time=now)
        for commit in self.reader.poll(self._commits - 1, 1):
            records = chunk_records(commit)
            self._records += records
            self._waiting += [Position(*record.position) for record in records]
        self._commits += 1

    def records(self, needed: Position) -> Sequence[ChunkTimes]:
        """Records of the chunks after a position, before which none will be asked for again."""
        del self._records[: bisect_right(self._records, needed, key=attrgetter("position"))]
        return self._records

    def take(self, chunks: int) -> list[Position]:
        """The next blocks, which have been admitted."""
        taken, self._waiting = self._waiting[:chunks], self._waiting[chunks:]
        return taken


def chunk_records(commit: Commit) -> list[ChunkTimes]:
    """What event time needs to know of a commit's chunks."""
    records = []
    for chunk in commit.chunks:
        times = chunk.times[TIME]
        records.append(
            ChunkTimes(
                commit.id,
                chunk.index,
                chunk.rows,
                times.min,
                times.max,
                times.nulls,
                times.sketch,
                commit.wall_time,
                commit.watermarks.get(TIME),
                chunk.index == len(commit.chunks) - 1,
            )
        )
    return records
