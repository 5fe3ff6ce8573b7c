"""Decide rows that can never match in the slicers.

A conjunct of ON over one side says of a row alone whether it can match. The slicer writes the answer as the
flag `live__`; the join decides a row that is not live at once, without buffering it. The row is still
written, because an outer join emits it padded, and because its event time tells how far the stream has
come.
"""

from __future__ import annotations

from dataclasses import replace

from braid.core.side import Side
from braid.lang.query import Condition, Query
from braid.plan.logical.expressions import column, condition, conjunction, output
from braid.plan.logical.selects import Parts, each_join
from braid.plan.names import LIVE


def push_one_sided(query: Query) -> Query:
    """One-sided conjuncts of ON become the column `live__` of their side."""
    return each_join(query, _push)


def _push(parts: Parts) -> Parts:
    parts, left = _flag(parts, Side.LEFT, parts.on.left_only)
    parts, right = _flag(parts, Side.RIGHT, parts.on.right_only)
    return parts.with_on(replace(parts.on, left_only=left, right_only=right))


def _flag(parts: Parts, side: Side, conditions: tuple[Condition, ...]) -> tuple[Parts, tuple[Condition, ...]]:
    live = conjunction(parts.into_slicer(part.expression, side) for part in conditions)
    if live is None:
        return parts, ()
    span = conditions[0].span.to(conditions[-1].span)
    parts = parts.with_column(side, output(LIVE, live, "boolean", span))
    return parts, (condition(column(LIVE, parts.slicer(side).name, "boolean"), span),)
