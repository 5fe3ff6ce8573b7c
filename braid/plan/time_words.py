"""Words for times, windows and buffers, shared by explain and diff."""

from __future__ import annotations

from braid.core.config import UNLIMITED
from braid.core.times import DAY, FOREVER, HOUR, MINUTE

_UNITS = (
    ("d", DAY),
    ("h", HOUR),
    ("min", MINUTE),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)


def duration(micros: int) -> str:
    """`3 min`, `3 h 30 min`, `-1 min 30 s`, `0 s`, `forever`."""
    if micros >= FOREVER:
        return UNLIMITED
    if micros == 0:
        return "0 s"
    parts, rest = [], abs(micros)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return ("-" if micros < 0 else "") + " ".join(parts)


def order(disorder: int | None) -> str:
    """`in any order`, `ordered`, `ordered within 20 s`: how the records of a stream are declared to come."""
    if disorder is None:
        return "in any order"
    return f"ordered within {duration(disorder)}" if disorder else "ordered"


def window(lower: int, upper: int) -> str:
    """`[-3 min, +3 min]`, the right event time relative to the left one."""
    return f"[{_signed(lower)}, {_signed(upper)}]"


def _signed(micros: int) -> str:
    return f"+{duration(micros)}" if micros > 0 else duration(micros)


def left_buffering(upper: int) -> int:
    """How long a left row waits, after the right stream has reached its time, for matches still to come."""
    return max(upper, 0)


def right_buffering(lower: int) -> int:
    """How long a right row is kept after the left stream has reached its time, for left rows to come."""
    return max(-lower, 0)
