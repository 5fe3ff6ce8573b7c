"""Put a category of the log where the rows of a join view are needed more than once."""

from __future__ import annotations

from dataclasses import replace

from braid.core.connectors import SinkKind, SourceKind
from braid.lang.query import InputSource, InputTable, Query, Select, Stateful, Storage, Table, View
from braid.plan.logical.expressions import column, output
from braid.plan.logical.selects import Statement, feeding, readers
from braid.plan.names import category, writer


def cut_views(query: Query) -> Query:
    """Store what follows a join when several statements, or another join, read it.

    A view over a join that one plain statement reads is evaluated in the join's own query. Otherwise its
    rows go to the category `<application>.<view>`, and its readers read that. Views over input tables are
    never stored.
    """
    reading = readers(query)
    fed = feeding(query)
    views, inputs, tables = [], list(query.inputs), []
    over_join: set[str] = set()
    for view in query.views:
        views.append(view)
        if isinstance(view.select, Stateful):
            over_join.add(view.name)
            continue
        if view.select.source.table not in over_join or view.name in fed:
            continue
        if _fuses(reading.get(view.name, []), fed):
            over_join.add(view.name)
            continue
        views[-1:] = [replace(view, name=writer(view.name))]
        inputs.append(_input(query, view))
        tables.append(_table(query, view))
    return replace(query, inputs=tuple(inputs), views=tuple(views), tables=(*tables, *query.tables))


def _fuses(found: list[Statement], fed: set[str]) -> bool:
    return len(found) == 1 and (isinstance(found[0], Table) or found[0].name not in fed)


def _input(query: Query, view: View) -> InputTable:
    source = InputSource(SourceKind.SCRIBE, category(query.application.name, view.name))
    return InputTable(view.name, view.columns, source, view.span)


def _table(query: Query, view: View) -> Table:
    name = writer(view.name)
    columns = tuple(output(c.name, column(c.name, name, c.type), c.type, c.span) for c in view.columns)
    source = replace(view.select.source, alias=name, table=name)
    storage = Storage(SinkKind.SCRIBE, category(query.application.name, view.name))
    return Table(name, Select(source, columns, view.span), storage, view.span)
