"""Which columns of the inputs are event times: those that joins bound, also through views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from braid.lang.errors import Report
from braid.lang.names.scope import identifier
from braid.lang.query import AnySelect, JoinSelect, OperatorSelect, Table, View
from braid.lang.syntax.tree import InputSyntax, RelationSyntax

TimeOf = Callable[[str], str | None]
"""The event-time column of a table or view, if it is known by declaration."""


def declared_time(
    relation: RelationSyntax,
    tables: Mapping[str, str],
    time_of: TimeOf,
    what: str,
    otherwise: str | None,
    report: Report,
) -> exp.Expr | None:
    """The event time that a relation is known to have; None if there is none, which is reported.

    `what` needs it; `otherwise` is how the program can do without a declaration.
    """
    alias = relation.alias.text
    column = time_of(tables[alias])
    if column is None:
        hint = "declare it with TIME in CREATE INPUT TABLE, and let views pass that column on as it is"
        report.add(
            "PQL411",
            relation.span,
            f'{what} needs the event time of "{alias}", which is not known',
            f"{hint}, or {otherwise}" if otherwise else hint,
        )
        return None
    found = exp.Column(this=identifier(column), table=identifier(alias))
    found.type = exp.DataType.build("timestamp", dialect="spark")
    return found


def event_times(
    inputs: Iterable[InputSyntax], views: Sequence[View], tables: Sequence[Table]
) -> dict[str, tuple[str, ...]]:
    """Per input table, the columns that time bounds use as they are, in the order of use."""
    names = {table.name.text for table in inputs}
    selects = {view.name: view.select for view in views}
    found: dict[str, list[str]] = {}
    for select in (*selects.values(), *(table.select for table in tables)):
        for time in _times(select):
            origin = _origin(time, select, selects)
            if origin is not None and origin[0] in names:
                found.setdefault(origin[0], []).append(origin[1])
    return {table: tuple(dict.fromkeys(columns)) for table, columns in found.items()}


def _times(select: AnySelect) -> list[exp.Expr]:
    """The event times by which rows are put together."""
    if isinstance(select, JoinSelect):
        return [side for join in select.joins for side in (join.bounds.left, join.bounds.right)]
    return [select.time] if isinstance(select, OperatorSelect) else []


def time_column(select: AnySelect, times: Mapping[str, str]) -> str | None:
    """The column of a view that is the event time of what it reads, unchanged; the first in order of FROM."""
    for relation in select.relations:
        for column in select.columns:
            tree = column.expression.unnest()
            if not isinstance(tree, exp.Column) or tree.table != relation.alias:
                continue
            if times.get(relation.table) == tree.name:
                return column.name
    return None


def _origin(tree: exp.Expr, select: AnySelect, selects: Mapping[str, AnySelect]) -> tuple[str, str] | None:
    """The table and column that an expression is, unchanged; views are followed down."""
    while isinstance(tree, exp.Column):
        table = next((r.table for r in select.relations if r.alias == tree.table), None)
        if table is None:
            return None
        below = selects.get(table)
        if below is None:
            return table, tree.name
        name = tree.name
        tree = next(column.expression for column in below.columns if column.name == name).unnest()
        select = below
    return None
