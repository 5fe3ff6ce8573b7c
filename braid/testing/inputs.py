"""An input of a simulated join: a category of a real log, filled as rows arrive."""

from __future__ import annotations

import pyarrow as pa

from braid.core.columns import HASH, KEY, TIME
from braid.core.config import AppConfig
from braid.core.side import Side
from braid.eventtime.validity import valid_times
from braid.log import Log, hash_rows, write_file
from braid.testing.streams import Stream

_SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.int64()), ("id", pa.int64())])


class SimulatedInput:
    """What a slicer writes and a join reads of one stream; column `id` is the row's number in the stream."""

    def __init__(self, log: Log, side: Side, stream: Stream, options: AppConfig) -> None:
        self.category = log.create(side.value, _SCHEMA, options.shards)
        self._options = options
        key = pa.array(stream.key)
        ids = pa.array(range(len(stream)), pa.int64())
        self._rows = pa.table([hash_rows([key]), stream.event_time, key, ids], schema=_SCHEMA)
        self._commits = 0

    def publish(self, start: int, stop: int, now: int) -> None:
        """Write some rows as the next commit."""
        rows = self._rows.slice(start, stop - start)
        times = valid_times(rows[TIME], now, self._options.max_future)
        batches = rows.set_column(1, _SCHEMA.field(TIME), times).combine_chunks().to_batches()
        entry = write_file(self.category, f"c{self._commits}", batches, self._options.chunk_rows)
        self.category.publish(self._commits, [entry], wall_time=now)
        self._commits += 1
