"""Which columns of the inputs are event times: those that joins bound, also through views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from braid.lang.query import JoinSelect, Select, Table, View
from braid.lang.syntax.tree import InputSyntax


def event_times(
    inputs: Iterable[InputSyntax], views: Sequence[View], tables: Sequence[Table]
) -> dict[str, tuple[str, ...]]:
    """Per input table, the columns that time bounds use as they are, in the order of use."""
    names = {table.name.text for table in inputs}
    selects = {view.name: view.select for view in views}
    found: dict[str, list[str]] = {}
    for select in (*selects.values(), *(table.select for table in tables)):
        if isinstance(select, JoinSelect):
            for join in select.joins:
                for side in (join.bounds.left, join.bounds.right):
                    origin = _origin(side, select, selects)
                    if origin is not None and origin[0] in names:
                        found.setdefault(origin[0], []).append(origin[1])
    return {table: tuple(dict.fromkeys(columns)) for table, columns in found.items()}


def time_column(select: Select | JoinSelect, times: Mapping[str, str]) -> str | None:
    """The column of a view that is the event time of what it reads, unchanged; the first in order of FROM."""
    relations = select.relations if isinstance(select, JoinSelect) else (select.source,)
    for relation in relations:
        for column in select.columns:
            tree = column.expression.unnest()
            if not isinstance(tree, exp.Column) or tree.table != relation.alias:
                continue
            if times.get(relation.table) == tree.name:
                return column.name
    return None


def _origin(
    tree: exp.Expr, select: Select | JoinSelect, selects: dict[str, Select | JoinSelect]
) -> tuple[str, str] | None:
    """The table and column that an expression is, unchanged; views are followed down."""
    while isinstance(tree, exp.Column):
        relations = select.relations if isinstance(select, JoinSelect) else (select.source,)
        table = next((r.table for r in relations if r.alias == tree.table), None)
        if table is None:
            return None
        below = selects.get(table)
        if below is None:
            return table, tree.name
        name = tree.name
        tree = next(column.expression for column in below.columns if column.name == name).unnest()
        select = below
    return None
