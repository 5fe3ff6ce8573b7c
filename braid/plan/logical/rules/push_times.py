"""Compute the event times that the window compares in the slicers."""

from __future__ import annotations

from dataclasses import replace

from braid.core.side import Side
from braid.lang.query import Query
from braid.plan.logical.expressions import column, output
from braid.plan.logical.selects import Parts, each_join
from braid.plan.names import TIME

TYPE = "timestamp"


def push_times(query: Query) -> Query:
    """Both ends of the window become the column `time__` of their side."""
    return each_join(query, _push)


def _push(parts: Parts) -> Parts:
    bounds = parts.on.bounds
    for side, expression in ((Side.LEFT, bounds.left), (Side.RIGHT, bounds.right)):
        value = parts.into_slicer(expression, side)
        parts = parts.with_column(side, output(TIME, value, TYPE, bounds.span))
    left, right = (column(TIME, parts.slicer(side).name, TYPE) for side in Side)
    return parts.with_on(replace(parts.on, bounds=replace(bounds, left=left, right=right)))
