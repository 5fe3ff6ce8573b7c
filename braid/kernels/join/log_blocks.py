"""The blocks of one shard of a join, as the kernels ask for them, from the two input categories."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from braid.core.columns import HASH, LIVE, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MIN_TIME
from braid.kernels.join.spec import AnySpec
from braid.log.reader import Reader


class LogBlocks:
    """Reads a range of hashes of two categories.

    Parameters
    ----------
    left, right
        Readers of the categories, which all shards of a process share.
    hash_range
        Lowest and highest hash of the shard.
    spec
        What is joined: only the columns that it needs are read.
    broadcast
        The side that every shard reads whole, whatever its range: that of a join without keys.
    """

    def __init__(
        self,
        left: Reader,
        right: Reader,
        hash_range: tuple[int, int],
        spec: AnySpec,
        broadcast: Side | None = None,
    ) -> None:
        self._readers = {Side.LEFT: left, Side.RIGHT: right}
        self._ranges = {side: None if side is broadcast else hash_range for side in Side}
        self._columns = {side: _columns(self._readers[side], side, spec) for side in Side}

    def schema(self, side: Side) -> pa.Schema:
        """Columns of a side, also when it has no blocks yet."""
        schema = self._readers[side].category.schema
        return pa.schema([schema.field(name) for name in self._columns[side]])

    def read(self, side: Side, block: Position) -> pa.RecordBatch:
        """The shard's rows of a block, sorted by hash."""
        return self._readers[side].read(
            block.commit, block.chunk, hash_range=self._ranges[side], columns=self._columns[side]
        )

    def overlapping(self, side: Side, until: Position, low: int, high: int) -> Sequence[Position]:
        """Blocks up to and including `until` that may hold event times within `[low, high]`."""
        found = self._readers[side].overlapping(TIME, until, low, high)
        return [Position(*address) for address in found]

    def arrived(self, side: Side, block: Position) -> int:
        """Wall-clock time at which a block was published, in microseconds."""
        return self._readers[side].commit(block.commit).wall_time

    def forgotten(self, side: Side) -> int:
        """Largest event time that retention has removed."""
        return self._readers[side].category.removed_max_time.get(TIME, MIN_TIME)


def _columns(reader: Reader, side: Side, spec: AnySpec) -> tuple[str, ...]:
    wanted = dict.fromkeys((HASH, TIME, *spec.columns(side)))
    if not set(wanted) <= set(reader.category.schema.names):
        # The worker may have opened the category before an update of the application added columns.
        reader.category.refresh()
    if LIVE in reader.category.schema.names:
        wanted[LIVE] = None
    return tuple(wanted)
