"""What a join is: the frozen description that the planner writes and the kernels run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from braid.core.columns import KEY
from braid.core.errors import ConfigError
from braid.core.side import Side
from braid.kernels.join.predicate import Predicate


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


class Neighbour(StrEnum):
    """A right row next to a left row in time, which a time-series join can give besides the match."""

    PREVIOUS = "previous"
    NEXT = "next"


@dataclass(frozen=True)
class OutputColumn:
    """One column of the join's output: `name`, taken from `column` of `side`.

    With `neighbour`, the right row is not the match but the one before or after the left row's time.
    """

    name: str
    side: Side
    column: str
    neighbour: Neighbour | None = None


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
    carried
        Further time columns, per side, whose least buffered value each step reports: what holds back
        their watermarks downstream.
    consume
        Whether a right row is matched at most once: a true one-to-one join, with `match` FIRST. Left rows
        choose in order of event time, then arrival, once their window has closed.
    pad_after
        Wall-clock wait in microseconds after which an unmatched row comes out padded; None waits until
        stream time has passed the window. A match that comes later is counted, not emitted. A row
        that is the best match so far of another one is not padded; with `consume`, whose choices are all made
        in the end, rows are unmatched until then.
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
    carried: tuple[tuple[Side, str], ...] = ()
    consume: bool = False
    pad_after: int | None = None
    key_columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ConfigError(
                f"the time window is empty: lower bound {self.lower} us is above upper bound {self.upper} us",
                hint="swap the bounds, or widen the window",
            )
        if self.max_per_key is not None and self.max_per_key < 1:
            raise ConfigError(f"max_per_key is {self.max_per_key}, but must be at least 1")
        if self.consume and self.match is not MatchMode.FIRST:
            raise ConfigError(
                f"CONSUME goes with MATCH FIRST, not with MATCH {self.match.upper()}",
                hint="write MATCH FIRST CONSUME",
            )
        object.__setattr__(self, "key_columns", tuple(f"{KEY}{i}" for i in range(self.keys)))

    @property
    def rescued(self) -> tuple[Side, ...]:
        """Sides whose late rows find their partners in the log and may still be emitted with them.

        Not where the partner may have been padded already, or may have had its one match.
        """
        if not self.late_lookup:
            return ()
        sides = []
        if not self.type.pads(Side.RIGHT) and not self.consume:
            sides.append(Side.LEFT)
        if not self.type.pads(Side.LEFT) and self.match is MatchMode.ALL:
            sides.append(Side.RIGHT)
        return tuple(sides)

    @property
    def remembered(self) -> tuple[Side, ...]:
        """Sides of which it is known, in the end, which rows have had a match."""
        return (Side.LEFT, Side.RIGHT) if self.consume or self.type.pads(Side.RIGHT) else (Side.LEFT,)

    def columns(self, side: Side) -> tuple[str, ...]:
        """All payload columns that the join reads of `side`: output, keys and residual operands."""
        names = [c.column for c in self.output if c.side is side]
        names += self.key_columns
        if self.residual is not None:
            names += [c.name for c in self.residual.columns() if c.side == side]
        names += [name for which, name in self.carried if which is side]
        return tuple(dict.fromkeys(names))


class SeriesMode(StrEnum):
    """Which records of two time series are paired.

    `PAIRS` and `SPARSE` are symmetric: each record pairs with its predecessor and its successor in the
    other series, or only with the nearer of the two. The others give each left row at most one right row.
    """

    PAIRS = "pairs"
    SPARSE = "sparse"
    PREVIOUS = "previous"
    NEXT = "next"
    NEAREST = "nearest"

    @property
    def symmetric(self) -> bool:
        """Whether both series choose partners."""
        return self in (SeriesMode.PAIRS, SeriesMode.SPARSE)


@dataclass(frozen=True)
class SeriesSpec:
    """A join by neighbourhood in time, per key.

    Parameters
    ----------
    type, mode
        Join type (INNER or LEFT unless the mode is symmetric), and who pairs with whom.
    keys
        Number of key columns; 0 takes all rows as one series.
    output
        Output columns, in order; they may ask for neighbours.
    within
        Largest distance in time of a pair, in microseconds; None is no limit.
    carried
        As for `JoinSpec`.
    inclusive
        Whether a right row at the very time of the left row counts as previous, or as next; symmetric
        modes always count it as previous.
    """

    type: JoinType
    mode: SeriesMode
    keys: int
    output: tuple[OutputColumn, ...]
    within: int | None = None
    carried: tuple[tuple[Side, str], ...] = ()
    inclusive: bool = True
    key_columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.within is not None and self.within < 0:
            raise ConfigError(f"WITHIN is {self.within} us, but must not be negative")
        if not self.mode.symmetric and self.type not in (JoinType.INNER, JoinType.LEFT):
            raise ConfigError(
                f"a {self.mode} join cannot be a {self.type} join",
                hint="swap the two sides and use LEFT, or use TIMESERIES JOIN",
            )
        object.__setattr__(self, "key_columns", tuple(f"{KEY}{i}" for i in range(self.keys)))

    @property
    def remembered(self) -> tuple[Side, ...]:
        """As for `JoinSpec`."""
        return tuple(filter(self.type.pads, Side)) if self.mode.symmetric else (Side.LEFT,)

    def columns(self, side: Side) -> tuple[str, ...]:
        """All payload columns that the join reads of `side`."""
        names = [c.column for c in self.output if c.side is side]
        names += [name for which, name in self.carried if which is side]
        return tuple(dict.fromkeys([*names, *self.key_columns]))


AnySpec = JoinSpec | SeriesSpec
