"""Which event times can be believed (section 6.7 of the paper)."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.errors import SchemaError
from braid.core.times import MAX_TIME, MIN_TIME
from braid.eventtime.sketch import Distribution

HORIZON = 86_400_000_000
"""Event times this far behind the median of what they arrive with say nothing about a stream's time."""


class Validity(IntEnum):
    """Why an event time is not used, or that it is. Too old is for the join to say, by its window."""

    VALID = 0
    NULL = 1
    FUTURE = 2
    RANGE = 3

    @property
    def reason(self) -> str:
        """The name under which such rows are counted."""
        return {0: "valid", 1: "time_null", 2: "time_future", 3: "time_range"}[int(self)]


def classify(times: pa.Array | pa.ChunkedArray, now: int, max_future: int) -> npt.NDArray[np.uint8]:
    """Say for each event time whether it is valid.

    Parameters
    ----------
    times
        Microseconds since the epoch as int64 or timestamp; NULL where missing or unparsable.
    now
        The wall clock, in microseconds.
    max_future
        How far ahead of `now` an event time may be.

    Returns
    -------
    The `Validity` of each, as small integers. `RANGE` is a time that bounds cannot be added to.
    """
    values = _micros(times)
    null = values.is_null().to_numpy(zero_copy_only=False)
    filled = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    kinds = np.full(len(filled), Validity.VALID, dtype=np.uint8)
    kinds[filled > now + max_future] = Validity.FUTURE
    kinds[(filled <= MIN_TIME // 2) | (filled >= MAX_TIME // 2)] = Validity.RANGE
    kinds[null] = Validity.NULL
    return kinds


def valid_times(times: pa.Array | pa.ChunkedArray, now: int, max_future: int) -> pa.Array:
    """The event times in microseconds with those that are not valid replaced by NULL."""
    values = _micros(times)
    kinds = classify(values, now, max_future)
    return pc.if_else(pa.array(kinds == Validity.VALID), values, pa.scalar(None, pa.int64()))


def count_invalid(kinds: npt.NDArray[np.uint8]) -> dict[str, int]:
    """Rows per reason for which their time is not used; reasons without rows are left out."""
    counts = np.bincount(kinds, minlength=len(Validity))
    return {v.reason: int(counts[v]) for v in Validity if v is not Validity.VALID and counts[v]}


def _micros(times: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    if not pa.types.is_int64(array.type):
        raise SchemaError(
            f"an event time must be int64 microseconds or a timestamp, not {array.type}",
            hint="convert the column before it is checked",
        )
    return array


def plausible_floor(times: Distribution, horizon: int, known: int = MIN_TIME) -> int:
    """The event time below which rows take no part in estimating stream time.

    Clocks that were never set (1970) would otherwise hold stream time back for ever as soon as they are
    more than the percentile. The median stands firm until half of the rows are such; `known` is how far
    the stream is known to have come, for chunks of so few rows that the median is one of them.
    """
    return max(times.quantile(0.5), known) - horizon
