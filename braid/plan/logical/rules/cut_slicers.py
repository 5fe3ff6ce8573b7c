"""Let every slicer write the category that its join reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from braid.core.connectors import SinkKind, SourceKind
from braid.lang.query import Column, InputSource, InputTable, Query, Stateful, Storage, Table
from braid.plan.logical.expressions import data_type
from braid.plan.logical.selects import inputs_of
from braid.plan.names import TIME, category, is_key, owner, writer


def cut_slicers(query: Query) -> Query:
    """The views `v__left`, `v__right` and `v__input` become tables, stored by key, and inputs of `v`.

    These are the paper's four groups of statements: two slicers, the join, and what follows it.
    """
    slicers = {
        relation.table: category(query.application.name, owner(view.name), name)
        for view in query.views
        if isinstance(view.select, Stateful)
        for name, relation in zip(inputs_of(view.select), view.select.relations, strict=True)
    }
    views, inputs, tables = [], list(query.inputs), []
    for view in query.views:
        if view.name not in slicers:
            views.append(view)
            continue
        name, columns = slicers[view.name], view.columns
        source = InputSource(SourceKind.SCRIBE, name)
        inputs.append(InputTable(view.name, columns, source, view.span, time=TIME, time_columns=(TIME,)))
        storage = Storage(SinkKind.SCRIBE, name, shard_by=_shard_by(columns))
        tables.append(Table(writer(view.name), view.select, storage, view.span))
    return replace(query, inputs=tuple(inputs), views=tuple(views), tables=(*tables, *query.tables))


def _shard_by(columns: Iterable[Column]) -> exp.Expr | None:
    keys = [c for c in columns if is_key(c.name)]
    if not keys:
        return None
    operands = [exp.Column(this=exp.to_identifier(c.name)) for c in keys]
    result = operands[0] if len(keys) == 1 else exp.Anonymous(this="XXHASH64", expressions=operands)
    result.type = data_type(keys[0].type if len(keys) == 1 else "bigint")
    return result
