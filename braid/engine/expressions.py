"""Post-join expressions that need no Catalyst: columns, constants, COALESCE and NULL tests, over Arrow.

Results of a join that need no more than these never pass through the JVM. Anything else is Catalyst's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from braid.plan.stages.base import Projection

Evaluate = Callable[[pa.RecordBatch], pa.Array]


def compile_columns(
    columns: Sequence[Projection], source: pa.Schema, target: pa.Schema
) -> list[Evaluate] | None:
    """Functions that compute columns of `target` from batches of `source`; None if one needs Catalyst."""
    found = [compile_column(column.sql, source, target.field(column.name).type) for column in columns]
    done = [function for function in found if function is not None]
    return done if len(done) == len(found) else None


@lru_cache(1024)
def compile_column(sql: str, source: pa.Schema, kind: pa.DataType) -> Evaluate | None:
    """A function for one expression of exactly the type `kind`; None if it needs Catalyst."""
    return _build(sqlglot.parse_one(sql, read="spark"), source, kind)


def _build(node: exp.Expr, source: pa.Schema, kind: pa.DataType) -> Evaluate | None:
    if isinstance(node, exp.Paren):
        return _build(node.this, source, kind)
    if isinstance(node, exp.Column) and not node.table:
        return _column(str(node.this.this), source, kind)
    if isinstance(node, exp.Literal):
        return _literal(node, kind)
    if isinstance(node, exp.Coalesce):
        parts = [_build(part, source, kind) for part in (node.this, *node.expressions)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return lambda batch: pc.coalesce(*(part(batch) for part in known))
    negated = isinstance(node, exp.Not)
    test = node.this if negated else node
    if isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) and pa.types.is_boolean(kind):
        return _null_test(test.this, source, negated)
    return None


def _column(name: str, source: pa.Schema, kind: pa.DataType) -> Evaluate | None:
    if name not in source.names or source.field(name).type != kind:
        return None
    return lambda batch: batch.column(name)


def _literal(node: exp.Literal, kind: pa.DataType) -> Evaluate | None:
    if node.is_string != pa.types.is_string(kind):
        return None
    if not node.is_string and not (pa.types.is_int64(kind) or pa.types.is_int32(kind)):
        return None
    if not node.is_string and not node.this.isdigit():
        return None
    value = pa.scalar(node.this if node.is_string else int(node.this), kind)
    return lambda batch: pa.repeat(value, batch.num_rows)


def _null_test(node: exp.Expr, source: pa.Schema, negated: bool) -> Evaluate | None:
    name = str(node.this.this) if isinstance(node, exp.Column) and not node.table else ""
    if name not in source.names:
        return None
    if negated:
        return lambda batch: batch.column(name).is_valid()
    return lambda batch: batch.column(name).is_null()
