"""Lookups of a SELECT as a stage runs them: in order, each with the columns that are used of it."""

from __future__ import annotations

from sqlglot import exp

from braid.lang.query import Lookup, Select
from braid.plan.logical.expressions import cast, columns_of, sql, substitute
from braid.plan.logical.expressions import column as column_node
from braid.plan.logical.selects import map_select, output_expressions
from braid.plan.logical.types import same_type, type_of
from braid.plan.names import column_name, fetched
from braid.plan.stages.base import LookupColumn, LookupJoin, Projection


def lower_lookups(select: Select, taken: set[str]) -> tuple[tuple[LookupJoin, ...], Select]:
    """The lookups, and the SELECT with their columns under names that nothing else has.

    `taken` are the columns that the stage reads. A lookup whose columns are not used still decides, if it
    is an inner join, which rows there are.
    """
    if not select.lookups:
        return (), select
    names: dict[tuple[str, str], str] = {}
    columns: dict[str, list[LookupColumn]] = {lookup.alias: [] for lookup in select.lookups}
    for expression in output_expressions(select):
        for node in columns_of(expression):
            place = (node.table, column_name(node))
            if node.table in columns and place not in names:
                name = fetched(*place)
                while name in taken:
                    name += "_"
                taken = taken | {name}
                names[place] = name
                columns[node.table].append(LookupColumn(name, place[1], type_of(node) or "string"))

    def visible(node: exp.Column) -> exp.Expr | None:
        name = names.get((node.table, column_name(node)))
        return None if name is None else column_node(name, node.table, type_of(node) or "string")

    changed = map_select(select, lambda e: substitute(e, visible))
    assert isinstance(changed, Select)
    ordered = {alias: tuple(sorted(found, key=lambda c: c.column)) for alias, found in columns.items()}
    return tuple(_lookup(lookup, ordered[lookup.alias]) for lookup in changed.lookups), changed


def _lookup(lookup: Lookup, columns: tuple[LookupColumn, ...]) -> LookupJoin:
    keys = []
    for key in lookup.keys:
        value = key.expression if same_type(key.expression, key.type) else cast(key.expression, key.type)
        keys.append(Projection(key.column, sql(value), key.type))
    return LookupJoin(lookup.table, lookup.type, tuple(keys), columns)
