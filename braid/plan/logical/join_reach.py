"""What follows from a join's kind: how far apart its rows may be, and what every shard has to see."""

from __future__ import annotations

from braid.core.side import Side
from braid.core.times import FOREVER
from braid.kernels.join.spec import JoinType, MatchMode, SeriesMode
from braid.lang.query import Join


def bounds_of(join: Join, *, interpolates: bool) -> tuple[int, int]:
    """Bounds of `right.time - left.time`; a join that gives neighbours waits for both of them."""
    if join.series is None:
        return join.bounds.lower, join.bounds.upper
    within = FOREVER if join.series.within is None else min(join.series.within, FOREVER)
    if join.series.mode is SeriesMode.PREVIOUS and not interpolates:
        return -within, 0
    if join.series.mode is SeriesMode.NEXT and not interpolates:
        return 0, within
    return -within, within


def spread(join: Join) -> tuple[Side | None, bool]:
    """Of a join without keys: the side that every shard reads, or whether one shard has to see all rows.

    The side that decides which of its rows are matched is split, and the other one is read by all. Where
    both sides decide, as in a FULL join, no split will do.
    """
    if join.keys:
        return None, False
    if join.consume or join.type is JoinType.FULL:
        return None, True
    if join.series is not None:
        return (None, True) if join.series.mode.symmetric else (Side.RIGHT, False)
    if join.type is JoinType.RIGHT:
        return (Side.LEFT, False) if join.match is MatchMode.ALL else (None, True)
    return Side.RIGHT, False
