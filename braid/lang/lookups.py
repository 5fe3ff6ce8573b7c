"""Lookup joins: which keys of the table equal what."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from braid.lang import types
from braid.lang.errors import Report
from braid.lang.names import Part, ResolvedJoin
from braid.lang.query import Lookup, LookupKey
from braid.lang.scope import relations_of
from braid.lang.syntax import RelationSyntax


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
        if key.column in keys:
            report.add("PQL414", part.span, f'"{key.column}" is compared twice', "remove one")
            return None
        keys[key.column] = key
    if not keys:
        return None
    return Lookup(alias, syntax.relation.table.text, syntax.type, tuple(keys.values()), syntax.span, after)


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
