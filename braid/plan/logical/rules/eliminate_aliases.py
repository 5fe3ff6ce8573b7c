"""Refer to every relation by its own name: the paper's first rewriting (section 4.2)."""

from __future__ import annotations

from dataclasses import replace

from braid.lang.query import AnySelect, OperatorSelect, Query, Relation, Select
from braid.plan.logical.expressions import rename_relations
from braid.plan.logical.selects import map_select


def eliminate_aliases(query: Query) -> Query:
    """Replace aliases by table names; the second of two relations of the same table is called `table_2`.

    Lookups keep their aliases, which give their columns a place, unless a table has that name.
    """
    return replace(
        query,
        views=tuple(replace(view, select=_named(view.select)) for view in query.views),
        tables=tuple(replace(table, select=_named(table.select)) for table in query.tables),
    )


def _named(select: AnySelect) -> AnySelect:
    names: dict[str, str] = {}
    tables = {relation.table for relation in select.relations}
    for relation in select.relations:
        name, count = relation.table, 1
        while name in names.values() or (count > 1 and name in tables):
            count += 1
            name = f"{relation.table}_{count}"
        names[relation.alias] = name
    for lookup in select.lookups:
        name, count = lookup.alias, 1
        while name in names.values():
            count += 1
            name = f"{lookup.alias}_{count}"
        names[lookup.alias] = name

    def renamed(relation: Relation) -> Relation:
        return replace(relation, alias=names[relation.alias])

    select = map_select(select, lambda e: rename_relations(e, names))
    if isinstance(select, OperatorSelect):
        return replace(select, source=renamed(select.source))
    lookups = tuple(replace(lookup, alias=names[lookup.alias]) for lookup in select.lookups)
    if isinstance(select, Select):
        return replace(select, source=renamed(select.source), lookups=lookups)
    joins = tuple(replace(join, right=renamed(join.right)) for join in select.joins)
    return replace(select, source=renamed(select.source), joins=joins, lookups=lookups)
