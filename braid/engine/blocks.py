"""The blocks of one shard of an operator, as its kernel asks for them, from its input categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from braid.core.columns import LIVE, TIME
from braid.core.hashes import HashRange
from braid.core.positions import Position
from braid.core.times import MIN_TIME
from braid.kernels.arrays import Ints
from braid.kernels.operator import OperatorSpec
from braid.log.reader import Reader


class LogBlocks:
    """Reads a range of hashes of some categories.

    Parameters
    ----------
    readers
        Readers of the categories by the names of the inputs; all shards of a process share them.
    hash_range
        Lowest and highest hash of the shard.
    operator
        Whose blocks these are: only the columns that it needs are read.
    """

    def __init__(self, readers: Mapping[str, Reader], hash_range: HashRange, operator: OperatorSpec) -> None:
        self._readers = readers
        self._ranges = {name: None if name == operator.whole else hash_range for name in readers}
        self._columns = {name: _present(reader, operator.columns(name)) for name, reader in readers.items()}

    def schema(self, name: str) -> pa.Schema:
        """Columns of an input, also when it has no blocks yet."""
        schema = self._readers[name].category.schema
        return pa.schema([schema.field(column) for column in self._columns[name]])

    def read(self, name: str, block: Position) -> pa.RecordBatch:
        """The shard's rows of a block, sorted by hash."""
        return self._readers[name].read(
            block.commit, block.chunk, hash_range=self._ranges[name], columns=self._columns[name]
        )

    def overlapping(self, name: str, until: Position, low: int, high: int) -> Sequence[Position]:
        """Blocks up to and including `until` that may hold event times within `[low, high]`."""
        return [Position(*found) for found in self._readers[name].overlapping(TIME, until, low, high)]

    def find(
        self, name: str, until: Position, hashes: Ints, low: Ints, high: Ints
    ) -> list[tuple[Position, Ints | None]]:
        """Blocks up to and including `until`, and rows in them, that may have these hashes at these times."""
        found = self._readers[name].find(until, hashes, low, high, self._ranges[name])
        return [(Position(*block), rows) for block, rows in found]

    def arrived(self, name: str, block: Position) -> int:
        """Wall-clock time at which a block was published, in microseconds."""
        return self._readers[name].commit(block.commit).wall_time

    def forgotten(self, name: str) -> int:
        """Largest event time that retention has removed, as of now."""
        self._readers[name].refresh()
        return self._readers[name].category.removed_max_time.get(TIME, MIN_TIME)


def _present(reader: Reader, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The columns to read; the flag of rows that can match is only there where some cannot."""
    needed = [name for name in wanted if name != LIVE]
    if not set(needed) <= set(reader.category.schema.names):
        # The worker may have opened the category before an update of the application added columns.
        reader.category.refresh()
    return (*needed, LIVE) if LIVE in wanted and LIVE in reader.category.schema.names else tuple(needed)
