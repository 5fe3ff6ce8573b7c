"""What a join is: the frozen description that the planner writes and the kernels run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from braid.errors import ConfigError
from braid.kernels.predicate import Predicate
from braid.kernels.side import Side

HASH = "__hash"
"""Column of every block that feeds a join: a signed 64-bit hash of the key; blocks are sorted by it."""
TIME = "__time"
"""Event time in microseconds since the epoch, int64; NULL when missing or invalid."""
LIVE = "__live"
"""Optional boolean column: rows where it is not true can never match and are decided at once."""
KEY = "__key"
"""Prefix of the key columns: `__key0`, `__key1`, ...; a NULL in any of them never matches."""

MICROS = 1_000_000
MIN_TIME = -(2**62)
MAX_TIME = 2**62
"""Stream times stay inside these, so that adding a bound never overflows an int64."""


class JoinType(StrEnum):
    """Which rows come out when nothing matches them."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"

    def pads(self, side: Side) -> bool:
        """Whether an unmatched row of `side` comes out padded with NULLs."""
        return self is JoinType.FULL or self.value == side.value


class MatchMode(StrEnum):
    """How many right rows a left row may match, and which."""

    ALL = "all"
    FIRST = "first"
    NEAREST = "nearest"
    EARLIEST = "earliest"
    LATEST = "latest"

    @property
    def waits(self) -> bool:
        """Whether the choice can only be made once the window has closed."""
        return self in (MatchMode.NEAREST, MatchMode.EARLIEST, MatchMode.LATEST)


@dataclass(frozen=True)
class OutputColumn:
    """One column of the join's output: `name`, taken from `column` of `side`."""

    name: str
    side: Side
    column: str


@dataclass(frozen=True)
class JoinSpec:
    """An interval join: equal keys, and `left.time + lower <= right.time <= left.time + upper`.

    Parameters
    ----------
    type, match
        Join type and match mode.
    lower, upper
        Signed bounds in microseconds, both inclusive; any sign, `lower <= upper`.
    keys
        Number of key columns (`__key0` ...) on both sides; 0 is a time-only join.
    output
        Output columns, in order.
    residual
        Further predicate over columns of both sides, in SQL three-valued logic; None is TRUE.
    max_per_key
        Most pending rows kept per key and side; None is no limit.
    late_lookup
        Whether rows behind stream time look for partners in the log.
    """

    type: JoinType
    lower: int
    upper: int
    keys: int
    output: tuple[OutputColumn, ...]
    match: MatchMode = MatchMode.ALL
    residual: Predicate | None = None
    max_per_key: int | None = None
    late_lookup: bool = True
    key_columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ConfigError(
                f"the time window is empty: lower bound {self.lower} us is above upper bound {self.upper} us",
                hint="swap the bounds, or widen the window",
            )
        if self.max_per_key is not None and self.max_per_key < 1:
            raise ConfigError(f"max_per_key is {self.max_per_key}, but must be at least 1")
        object.__setattr__(self, "key_columns", tuple(f"{KEY}{i}" for i in range(self.keys)))

    def columns(self, side: Side) -> tuple[str, ...]:
        """All payload columns that the join reads of `side`: output, keys and residual operands."""
        names = [c.column for c in self.output if c.side is side]
        names += self.key_columns
        if self.residual is not None:
            names += [c.name for c in self.residual.columns() if c.side == side]
        return tuple(dict.fromkeys(names))
