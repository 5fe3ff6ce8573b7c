"""Drop the columns that a join carries for nobody, once the other rules have moved the expressions."""

from __future__ import annotations

from dataclasses import replace

from braid.core.side import Side
from braid.lang.query import Query
from braid.plan.logical.selects import Parts, each_join, join_expressions, narrow, output_expressions, used
from braid.plan.names import is_special


def prune_columns(query: Query) -> Query:
    """Keep of each slicer what the join reads, and of the join what is read after it.

    All columns of the view itself count as read, whether or not a table selects them: a table that selects
    one more column later finds it in the blocks that are already there.
    """
    return each_join(query, _prune)


def _prune(parts: Parts) -> Parts:
    after = {name for _, name in used(output_expressions(parts.post.select))}
    parts = parts.with_join(narrow(parts.select, after))
    needed = used(join_expressions(parts.on)) | used(output_expressions(parts.select))
    for side in Side:
        view = parts.slicer(side)
        kept = tuple(c for c in view.select.columns if is_special(c.name) or (view.name, c.name) in needed)
        parts = parts.with_slicer(side, replace(view.select, columns=kept))
    return parts
