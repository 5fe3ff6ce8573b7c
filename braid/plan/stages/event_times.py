"""Event times in a category: which columns they are, and how far apart they may lie.

Joins bound the difference of two event times. In a row that has both, every other two are bounded through
the joins between them: an outer join leaves either side of such a path NULL as a whole. So when rows of one
side of a join wait, by their own event time, it is known how old their other event times can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from braid.core.times import FOREVER

Lags = dict[tuple[str, str], int]
"""How far the second of two columns may lie before the first one, in microseconds; at most `FOREVER`."""
Refuse = Callable[[str, str, str], None]
"""Takes the name of a slicer, the event time that has no watermark, and the stage that loses it."""


@dataclass
class EventTimes:
    """Event times of a category.

    Parameters
    ----------
    names
        Their columns.
    lags
        How far apart they may lie.
    endless
        Event times that fall behind any watermark.
    joined
        Names of the event time that a join's input is joined by.
    writer
        The join that writes them.
    """

    names: tuple[str, ...] = ()
    lags: Lags = field(default_factory=dict)
    endless: tuple[str, ...] = ()
    joined: frozenset[str] = frozenset()
    writer: str = ""

    def lag(self, first: str, second: str) -> int:
        """How far the second may lie before the first."""
        return 0 if first == second else self.lags.get((first, second), FOREVER)


@dataclass(frozen=True)
class TimeColumn:
    """An event time in the output of a join or operator, and what holds its watermark back.

    The watermark of `column` is the lesser of two: that of the input's column, as of the last commit that
    was admitted, and `held - lag`, where `held` is the least event time of `side` that is still buffered or
    may still come (`braid.eventtime.propagated.output_watermarks`).

    Parameters
    ----------
    column
        The column of the sink.
    side, input
        The input that it comes from, by name, and its column there: `__time` for what rows meet by.
    lag
        How far it may lie before its side's event time, in microseconds.
    """

    column: str
    side: str
    input: str
    lag: int = 0


def total(*lags: int) -> int:
    """The sum of lags, where one that has no bound leaves none."""
    return FOREVER if any(lag >= FOREVER for lag in lags) else sum(lags)
