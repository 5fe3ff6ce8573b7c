"""Filter before the join where that means the same."""

from __future__ import annotations

from dataclasses import replace

from braid.core.side import Side
from braid.kernels.join.spec import MatchMode
from braid.lang.query import Join, Query
from braid.plan.logical.expressions import condition, conjuncts
from braid.plan.logical.selects import Parts, each_join


def push_where(query: Query) -> Query:
    """Move conjuncts of WHERE over one side to its slicer, where the join type and the match mode allow it.

    Below the side that an outer join pads with NULLs a filter would turn matches into padded rows. Below the
    right side of a single-match join, or of an ASOF join, it would change which row is chosen; where both
    sides choose, that holds for either of them.
    """
    return each_join(query, _push)


def may_filter(side: Side, join: Join) -> bool:
    """Whether dropping rows of `side` before the join is the same as dropping its output after it."""
    if join.type.pads(side.other) or join.consume:
        return False
    if join.series is not None:
        return side is Side.LEFT and not join.series.mode.symmetric
    return side is Side.LEFT or join.match is MatchMode.ALL


def _push(parts: Parts) -> Parts:
    kept = []
    for part in parts.post.select.where:
        sides = parts.sides(part.expression)
        side = next(iter(sides)) if len(sides) == 1 else None
        if side is None or not may_filter(side, parts.on):
            kept.append(part)
            continue
        select = parts.slicer(side).select
        moved = tuple(condition(e, part.span) for e in conjuncts(parts.into_slicer(part.expression, side)))
        parts = parts.with_slicer(side, replace(select, where=(*select.where, *moved)))
    return parts.with_post(replace(parts.post.select, where=tuple(kept)))
