"""What joins and operators look like once they are rewritten: the form that lowering takes."""

from __future__ import annotations

from sqlglot import exp

from braid.core.connectors import SinkKind, SourceKind
from braid.core.side import Side
from braid.kernels.operator import INPUT
from braid.lang.query import InputTable, JoinSelect, OperatorSelect, Query, Table
from braid.plan.logical.expressions import same_column
from braid.plan.logical.neighbours import neighbour_of
from braid.plan.logical.one_sided_operands import COMPARISONS
from braid.plan.logical.selects import readers
from braid.plan.names import LIVE, TIME, category, key, owner


def is_operator(query: Query, select: JoinSelect, name: str) -> bool:
    """Whether a join view only compares columns of categories that slicers of this application write.

    That is so for the rewritten form of an application, which planning must leave as it is. A program that
    merely resembles it is planned like any other.
    """
    if len(select.joins) != 1 or select.where or select.lookups or len(readers(query).get(name, [])) != 1:
        return False
    if not isinstance(readers(query)[name][0], Table):
        return False
    whole = owner(name)
    if whole == name or not all(
        _is_slicer_output(query, relation.table, category(query.application.name, whole, side))
        for side, relation in zip(Side, select.relations, strict=True)
    ):
        return False
    join = select.joins[0]
    return (
        all(
            isinstance(item.expression, exp.Column) or neighbour_of(item.expression) is not None
            for item in select.columns
        )
        and all(
            same_column(pair.left, key(position)) and same_column(pair.right, key(position))
            for position, pair in enumerate(join.keys)
        )
        and same_column(join.bounds.left, TIME)
        and same_column(join.bounds.right, TIME)
        and all(
            len(flags) <= 1 and all(same_column(flag.expression, LIVE) for flag in flags)
            for flags in (join.left_only, join.right_only)
        )
        and all(_is_compared(part.expression) for part in join.residual)
    )


def is_separate(query: Query, select: OperatorSelect, name: str) -> bool:
    """The same for a view over an operator."""
    source = category(query.application.name, owner(name), INPUT)
    return (
        owner(name) != name
        and not select.where
        and [type(reader) for reader in readers(query).get(name, [])] == [Table]
        and _is_slicer_output(query, select.source.table, source)
        and all(isinstance(item.expression, exp.Column) for item in select.columns)
        and all(same_column(one, key(position)) for position, one in enumerate(select.keys))
        and same_column(select.time, TIME)
    )


def _is_slicer_output(query: Query, name: str, stored: str) -> bool:
    """Whether an input table reads exactly what one table of the application stores in that category."""
    table = query.relation(name)
    if not isinstance(table, InputTable) or (table.source.kind, table.source.name) != (
        SourceKind.SCRIBE,
        stored,
    ):
        return False
    writers = [t for t in query.tables if (t.storage.kind, t.storage.name) == (SinkKind.SCRIBE, stored)]
    if len(writers) != 1:
        return False
    return {(c.name, c.type) for c in writers[0].columns} == {(c.name, c.type) for c in table.columns}


def _is_compared(expression: exp.Expr) -> bool:
    """Whether a residual consists of comparisons of columns, and of columns that are flags."""
    expression = expression.unnest()
    if isinstance(expression, exp.Column):
        return True
    if isinstance(expression, exp.Not):
        return _is_compared(expression.this)
    if isinstance(expression, exp.And | exp.Or):
        return _is_compared(expression.left) and _is_compared(expression.right)
    return isinstance(expression, COMPARISONS) and all(
        isinstance(expression.args[side].unnest(), exp.Column) for side in ("this", "expression")
    )
