"""Rows that lost something, by address and reason. Nothing is lost without being listed here."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa

from braid.core.counters import Counters
from braid.kernels.arrays import Ints

SCHEMA = pa.schema(
    [
        ("side", pa.string()),
        ("reason", pa.string()),
        ("commit", pa.int64()),
        ("chunk", pa.int64()),
        ("row", pa.int64()),
        ("matches", pa.int64()),
    ]
)
"""`matches` is how many matches the row is known to have lost, 0 where that cannot be known."""


class Loss(StrEnum):
    """Why a row is lost."""

    LATE = "late"
    """It has matches with rows that were already decided."""
    CAPPED = "capped"
    """Evicted by `max_per_key`."""
    BEYOND_RETENTION = "beyond_retention"
    """A late row whose window reaches into what the log no longer has."""
    INVALID_TIME = "invalid_time"

    def reason(self, side: str) -> str:
        """What dead letters call it: `late_left`, `capped_right`, `invalid_time`."""
        return f"{self}_{side}" if self in (Loss.LATE, Loss.CAPPED) else str(self)


class Lost:
    """Collects and counts lost rows of one step."""

    def __init__(self, counts: Counters) -> None:
        self._counts = counts
        self._batches: list[pa.RecordBatch] = []

    def add(self, side: str, loss: Loss, refs: tuple[Ints, Ints, Ints], matches: Ints) -> None:
        """Note rows, given by commit, chunk and row within the block."""
        size = len(matches)
        lost = self._counts.inputs[side].lost
        lost[str(loss)] = lost.get(str(loss), 0) + size
        arrays = [
            pa.repeat(str(side), size),
            pa.repeat(loss.reason(side), size),
            *(pa.array(np.asarray(values, np.int64)) for values in (*refs, matches)),
        ]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))

    def table(self) -> pa.Table:
        """All lost rows."""
        return pa.Table.from_batches(self._batches, SCHEMA)
