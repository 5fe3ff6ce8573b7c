"""A block's rows, ordered for a join."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.columns import HASH, LIVE, TIME
from braid.eventtime.validity import in_range
from braid.kernels.arrays import Ints
from braid.kernels.join.runs import Run
from braid.kernels.join.spec import AnySpec


class Parsed(NamedTuple):
    """A block's rows that can match, ordered for the join, the numbers of the others, and all event times."""

    run: Run
    inert: Ints
    invalid: Ints
    times: Ints


def parse(batch: pa.RecordBatch, spec: AnySpec, start: int) -> Parsed:
    """Index a block whose rows are numbered from `start`.

    Rows that can never match are `inert` (not live, or a NULL in the key) or `invalid` (no usable time).
    """
    rows = batch.num_rows
    time = batch.column(TIME)
    timed = np.ones(rows, np.bool_)
    if time.null_count:
        timed = pc.is_valid(time).to_numpy(zero_copy_only=False)
        time = pc.fill_null(time, 0)
    times = time.to_numpy()
    timed &= in_range(times)
    live = np.ones(rows, np.bool_)
    if LIVE in batch.schema.names:
        # NULL is where the slicer had no condition, which an update may take away: see `join.live_removed`.
        live = pc.fill_null(batch.column(LIVE), True).to_numpy(zero_copy_only=False)
    for name in spec.key_columns:
        column = batch.column(name)
        if column.null_count:
            live = live & pc.is_valid(column).to_numpy(zero_copy_only=False)
    good = timed & live
    number = np.arange(start, start + rows)
    if spec.keys:
        run = Run(batch.column(HASH).to_numpy(), number)
    else:
        order = np.argsort(times, kind="stable")
        run = Run(times[order], number[order])
        good = good[order]
    if good.all():
        return Parsed(run, number[:0], number[:0], times)
    return Parsed(run.select(good), number[timed & ~live], number[~timed], times)
