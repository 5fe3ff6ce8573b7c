"""Rows that lost something, by address and reason. Nothing is lost without being listed here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from braid.core.side import Side
from braid.kernels.join.runs import Ints

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


class Lost:
    """Collects lost rows of one step.

    Reasons: `late_left`, `late_right` (matches with rows that were already decided), `capped_left`,
    `capped_right` (evicted by `max_per_key`), `beyond_retention` (a late row whose window reaches into what
    the log no longer has), `invalid_time`.
    """

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def add(self, side: Side, reason: str, refs: tuple[Ints, Ints, Ints], matches: Ints) -> None:
        """Note rows, given by commit, chunk and row within the block."""
        size = len(matches)
        arrays = [
            pa.repeat(str(side), size),
            pa.repeat(reason, size),
            *(pa.array(np.asarray(values, np.int64)) for values in (*refs, matches)),
        ]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))

    def table(self) -> pa.Table:
        """All lost rows."""
        return pa.Table.from_batches(self._batches, SCHEMA)
