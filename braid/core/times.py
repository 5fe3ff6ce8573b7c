"""Event times, stream times and their limits, all in microseconds since the epoch."""

from __future__ import annotations

import time
from datetime import UTC, datetime

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

MIN_TIME = -(2**62)
"""The stream time of a stream that has none yet."""
MAX_TIME = 2**62
"""The stream time of a stream that has ended. Adding a bound to either never overflows an int64."""
FAR = 2**61
"""Event times and bounds lie within +-FAR, so that their sums with stream times fit an int64."""
FOREVER = FAR
"""Distance in time of a bound that there is not."""
YEAR_1, YEAR_9999_END = -62_135_596_800_000_000, 253_402_300_799_999_999
"""First and last microsecond of the years 1 to 9999, which are those that texts have."""


def now_micros() -> int:
    """The wall clock."""
    return time.time_ns() // 1000


def iso_time(micros: int) -> str:
    """A point in time for people: `2026-03-01T12:00:05Z`."""
    return datetime.fromtimestamp(micros // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_millis(micros: int) -> str:
    """A point in time as Spark writes it: `2026-03-01T12:00:05.250Z`."""
    return datetime.fromtimestamp(micros / SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def is_known(stream_time: int) -> bool:
    """Whether a stream time is a point in time: neither "none yet" nor "ended"."""
    return MIN_TIME < stream_time < MAX_TIME


def clamp_time(value: int) -> int:
    """Keep a sum of times and bounds between `MIN_TIME` and `MAX_TIME`."""
    return max(MIN_TIME, min(MAX_TIME, value))


def shift_time(time: int, by: int) -> int:
    """Move a stream time by a bound; "none yet" and "ended" stay what they are."""
    return clamp_time(time + by) if is_known(time) else time
