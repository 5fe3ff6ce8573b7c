"""Compute join keys in the slicers, so that equal keys have equal bits and can be hashed and sharded."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from braid.core.side import Side
from braid.lang.query import Query
from braid.plan.logical.expressions import cast, column, data_type, output
from braid.plan.logical.selects import Parts, each_join
from braid.plan.logical.types import same_type
from braid.plan.names import key


def push_keys(query: Query) -> Query:
    """`f(l.a) = g(r.b)` becomes `l.key0__ = r.key0__`, both in the type in which they are compared."""
    return each_join(query, _push)


def _push(parts: Parts) -> Parts:
    keys = []
    for position, equality in enumerate(parts.on.keys):
        name, placed = key(position), {}
        for side, expression in ((Side.LEFT, equality.left), (Side.RIGHT, equality.right)):
            value = as_key(parts.into_slicer(expression, side), equality.type)
            parts = parts.with_column(side, output(name, value, equality.type, equality.span))
            placed[side] = column(name, parts.slicer(side).name, equality.type)
        keys.append(replace(equality, left=placed[Side.LEFT], right=placed[Side.RIGHT]))
    return parts.with_on(replace(parts.on, keys=tuple(keys)))


def as_key(expression: exp.Expr, type_: str) -> exp.Expr:
    """The expression in the type of the key; floating-point keys have one zero and one NaN, as in SQL."""
    if not same_type(expression, type_):
        expression = cast(expression, type_)
    if type_ not in ("float", "double"):
        return expression
    zero = cast(exp.Literal.number(0), type_)
    nan = cast(exp.Literal.string("NaN"), type_)
    operand = exp.Paren(this=expression.copy()) if isinstance(expression, exp.Binary) else expression.copy()
    result = exp.Case(
        ifs=[exp.If(this=exp.Anonymous(this="ISNAN", expressions=[expression.copy()]), true=nan)],
        default=exp.Add(this=operand, expression=zero),
    )
    result.type = data_type(type_)
    return result
