"""Lookup joins: which keys of the table equal what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from braid.core.connectors import SinkKind
from braid.lang import sql_types as types
from braid.lang.dialect import span_of
from braid.lang.errors import Report
from braid.lang.names.resolve import LookupTable, Part, ResolvedJoin, ResolvedSelect
from braid.lang.names.scope import relations_of
from braid.lang.query import Lookup, LookupKey, Table
from braid.lang.source import Span
from braid.lang.syntax.tree import Call, RelationSyntax


def build_lookup(
    join: ResolvedJoin, before: Sequence[RelationSyntax], after: int, report: Report
) -> Lookup | None:
    """A lookup join after so many joins of streams, or None when it has been reported."""
    syntax = join.syntax
    alias = syntax.relation.alias.text
    earlier = frozenset(relation.alias.text for relation in before)
    example = f"{alias}.key = {before[-1].alias.text}.key"
    keys: dict[str, LookupKey] = {}
    for part in join.on:
        key = _key(part, alias, earlier)
        if key is None:
            text = f"the ON clause of LOOKUP takes equalities such as {example} only"
            report.add("PQL414", part.span, text, "put other conditions into WHERE")
            return None
        if not types.comparable(key.type):
            refuse_key(key.type, part.span, report)
            return None
        if key.column in keys:
            report.add("PQL414", part.span, f'"{key.column}" is compared twice', "remove one")
            return None
        keys[key.column] = key
    if not keys:
        return None
    return Lookup(alias, syntax.relation.table.text, syntax.type, tuple(keys.values()), syntax.span, after)


def refuse_key(type_: str, span: Span, report: Report) -> None:
    """Report a key whose values cannot be told apart."""
    hint = "compare plain values: an element, a field, or a text such as TO_JSON(...)"
    report.add("PQL416", span, f"values of type {type_} cannot be compared by a join", hint)


def stored_in(storage: Call) -> str | None:
    """The lookup table that a storage maintains, as its readers know it."""
    if storage.kind.text != SinkKind.LASER:
        return None
    named = {a.name.key if a.name is not None else "table": a.value for a in storage.arguments}
    return LookupTable(named["table"]).key if "table" in named else None


def check_stored(selects: Iterable[ResolvedSelect], tables: Iterable[Table], report: Report) -> None:
    """Compare lookups with the tables of the same program that they read: their keys, and their columns."""
    stored = {table.storage.name: table for table in tables if table.storage.kind.connector.keyed}
    for select in selects:
        for join in select.joins:
            relation = join.syntax.relation
            table = stored.get(relation.table.text) if relation.lookup else None
            if table is not None and select.sound:
                _compare(select, join, table, report)


def _compare(select: ResolvedSelect, join: ResolvedJoin, table: Table, report: Report) -> None:
    alias = join.syntax.relation.alias
    keys = {name.lower() for name in table.storage.keys}
    compared = {
        side.name.lower()
        for part in join.on
        for side in (part.expression.args.get("this"), part.expression.args.get("expression"))
        if isinstance(side, exp.Column) and side.table == alias.text
    }
    if compared != keys:
        listed = " and ".join(f"{alias.text}.{name}" for name in table.storage.keys)
        text = f"table {table.name} stores these records by {', '.join(table.storage.keys)}"
        report.add("PQL414", join.syntax.on_span, text, f"compare {listed}, and nothing else")
    known = keys | {name.lower() for name in table.storage.values}
    places = [(item.expression, item.span) for item in select.items]
    places += [(part.expression, part.span) for part in select.where]
    places += [(part.expression, part.span) for other in select.joins for part in other.on]
    for tree, span in places:
        for column in tree.find_all(exp.Column):
            if column.table == alias.text and column.name.lower() not in known:
                names = [*table.storage.keys, *table.storage.values]
                hint = report.suggest(column.name, names, listing="it stores")
                text = f'table {table.name} stores no column "{column.name}"'
                report.add("PQL202", span_of(column) or span, text, hint)


def _key(part: Part, alias: str, earlier: frozenset[str]) -> LookupKey | None:
    tree = part.expression
    if not isinstance(tree, exp.EQ):
        return None
    for own, other in ((tree.this, tree.expression), (tree.expression, tree.this)):
        own, other = own.unnest(), other.unnest()
        if isinstance(own, exp.Column) and own.table == alias and relations_of(other) <= earlier:
            kinds = [types.from_sqlglot(e.type) if e.type is not None else None for e in (own, other)]
            type_ = kinds[0] or types.common(*kinds) or "string"
            return LookupKey(own.name, other.copy(), type_)
    return None
