"""Take every view over an operator apart: a slicer view, the operator alone, and the rest after it."""

from __future__ import annotations

from dataclasses import replace

from braid.kernels.operator import INPUT
from braid.lang.query import OperatorSelect, Query, Relation, Select, View
from braid.plan.logical.expressions import column, output, rename_relations
from braid.plan.logical.normal_form import is_separate
from braid.plan.logical.rules.push_keys import as_key
from braid.plan.logical.rules.push_times import TYPE
from braid.plan.logical.rules.separate_sides import check_names, replace_separated
from braid.plan.logical.selects import map_columns, map_conditions, narrow, output_expressions, used
from braid.plan.logical.types import type_of
from braid.plan.names import TIME, key, operator_view, slicer_view


def separate_operators(query: Query) -> Query:
    """View `v` becomes views `v__input`, `v__operator` and, over these, `v`.

    The slicer computes keys and time, and passes on the columns that are used after the operator.
    """
    called = [
        (view, view.select)
        for view in query.views
        if isinstance(view.select, OperatorSelect) and not is_separate(query, view.select, view.name)
    ]
    return replace_separated(query, {view.name: _separate(query, view, select) for view, select in called})


def _separate(query: Query, view: View, select: OperatorSelect) -> tuple[View, ...]:
    source, span = select.source, view.span
    slicer = Relation(slicer_view(view.name, INPUT), slicer_view(view.name, INPUT), span)
    operator = Relation(operator_view(view.name), operator_view(view.name), span)
    needed = used(output_expressions(select))
    payload = [c for c in query.relation(source.table).columns if (source.alias, c.name) in needed]
    check_names(query, (*select.columns, *payload))
    sliced = [output(c.name, column(c.name, source.alias, c.type), c.type, span) for c in payload]
    keys = []
    for position, expression in enumerate(select.keys):
        name, type_ = key(position), type_of(expression) or "string"
        sliced.append(output(name, as_key(expression, type_), type_, span))
        keys.append(column(name, slicer.alias, type_))
    sliced.append(output(TIME, select.time, TYPE, span))
    alone = replace(
        select,
        source=slicer,
        keys=tuple(keys),
        time=column(TIME, slicer.alias, TYPE),
        columns=tuple(output(c.name, column(c.name, slicer.alias, c.type), c.type, span) for c in payload),
        where=(),
    )
    renamed = {source.alias: operator.alias}
    after = Select(
        operator,
        map_columns(select.columns, lambda e: rename_relations(e, renamed)),
        select.span,
        map_conditions(select.where, lambda e: rename_relations(e, renamed)),
    )
    return (
        View(slicer.table, Select(source, tuple(sliced), span), span),
        View(operator.table, narrow(alone, {c.name for c in payload}), span),
        replace(view, select=after),
    )
