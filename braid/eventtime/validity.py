"""Which event times can be believed (section 6.7 of the paper)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.errors import SchemaError
from braid.core.times import DAY, MAX_TIME, MIN_TIME, YEAR_1, YEAR_9999_END

if TYPE_CHECKING:
    from braid.eventtime.sketch import Distribution

HORIZON = DAY
"""Event times this far behind the median of what they arrive with say nothing about a stream's time."""
INVALID_TIME = "invalid_time"
"""Reason of a dead letter about a row whose event time is not used; its detail is `Validity.words`."""


class Validity(IntEnum):
    """Whether an event time is used, and why not. Too late is for the join to say, by its window.

    Of several reasons the first in this order is given.
    """

    VALID = 0
    NULL = 1
    RANGE = 2
    """Outside of the years 1 to 9999: no text can say it, and bounds could not be added to the farthest."""
    FUTURE = 3

    @property
    def words(self) -> str:
        """The reason for people."""
        return _WORDS[self]


_WORDS = {
    Validity.VALID: "valid",
    Validity.NULL: "missing or unreadable",
    Validity.RANGE: "too far off",
    Validity.FUTURE: "in the future",
}


def in_range(times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each time is in the years 1 to 9999."""
    return (times >= YEAR_1) & (times <= YEAR_9999_END)


def classify(times: pa.Array | pa.ChunkedArray, now: int, max_future: int) -> npt.NDArray[np.uint8]:
    """Say for each event time whether it is valid; `invalid_sql` says the same in Spark.

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
    The `Validity` of each, as small integers.
    """
    values = _micros(times)
    filled = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    kinds = np.full(len(filled), Validity.VALID, dtype=np.uint8)
    kinds[filled > now + max_future] = Validity.FUTURE
    kinds[~in_range(filled)] = Validity.RANGE
    if values.null_count:
        kinds[values.is_null().to_numpy(zero_copy_only=False)] = Validity.NULL
    return kinds


def invalid_sql(time: str, now: str, max_future: int) -> str:
    """Spark SQL that gives the words of why an event time is not valid, and NULL if it is.

    Parameters
    ----------
    time
        Expression of bigint microseconds.
    now
        Expression of the clock in bigint microseconds, a constant of the micro-batch.
    max_future
        As for `classify`.

    Spark writes the clock into the code that it generates, which it would compile anew for every micro-batch,
    and most of which Java's interpreter would run. So the clock is compared by `zip_with`, for which Spark
    generates no code.
    """
    future = f"zip_with(array({time}), array({now}), (at, clock) -> at > clock + {max_future})[0]"
    tests = {
        Validity.NULL: f"{time} IS NULL",
        Validity.RANGE: f"{time} < {YEAR_1} OR {time} > {YEAR_9999_END}",
        Validity.FUTURE: future,
    }
    return "CASE " + " ".join(f"WHEN {tests[kind]} THEN '{kind.words}'" for kind in sorted(tests)) + " END"


def valid_times(times: pa.Array | pa.ChunkedArray, now: int, max_future: int) -> pa.Array:
    """The event times in microseconds with those that are not valid replaced by NULL."""
    values = _micros(times)
    kinds = classify(values, now, max_future)
    return pc.if_else(pa.array(kinds == Validity.VALID), values, pa.scalar(None, pa.int64()))


def words_of(kinds: npt.NDArray[np.uint8]) -> pa.Array:
    """The words of each `Validity`."""
    return pa.array([kind.words for kind in Validity]).take(pa.array(kinds))


def to_micros(times: pa.Array) -> pa.Array:
    """Timestamps of any unit in microseconds; those that do not fit are as far off as can be."""
    unit = times.type.unit
    if unit in ("s", "ms"):
        most = MAX_TIME // (1_000_000 if unit == "s" else 1_000)
        numbers = times.cast(pa.int64())
        numbers = pc.if_else(
            pc.greater(numbers, most), most, pc.if_else(pc.less(numbers, -most), -most, numbers)
        )
        times = numbers.cast(times.type)
    return times.cast(pa.timestamp("us", times.type.tz), safe=False)


def _micros(times: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    if pa.types.is_timestamp(array.type):
        array = to_micros(array).cast(pa.int64())
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
