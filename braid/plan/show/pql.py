"""Print a typed query as PQL; what comes out compiles again, to the same stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlglot import exp

from braid.core.times import DAY, HOUR, MINUTE
from braid.kernels.join.spec import JoinType, MatchMode, SeriesMode
from braid.lang.query import (
    AnySelect,
    InputTable,
    Join,
    JoinSelect,
    Lookup,
    OperatorSelect,
    Options,
    OutputColumn,
    Query,
    Relation,
    Select,
    Series,
    Storage,
    Table,
    TimeBounds,
    View,
)
from braid.plan.logical.expressions import column, columns_of, conjunction, output, sql
from braid.plan.logical.selects import output_expressions
from braid.plan.logical.types import type_of
from braid.plan.names import column_name, quote

_UNITS = (
    ("DAY", DAY),
    ("HOUR", HOUR),
    ("MINUTE", MINUTE),
    ("SECOND", 1_000_000),
    ("MILLISECOND", 1_000),
    ("MICROSECOND", 1),
)
_JOINS = {
    JoinType.INNER: "INNER JOIN",
    JoinType.LEFT: "LEFT OUTER JOIN",
    JoinType.RIGHT: "RIGHT OUTER JOIN",
    JoinType.FULL: "FULL OUTER JOIN",
}


def print_query(query: Query) -> str:
    """The whole application, statement by statement, in the order given."""
    statements = [
        *(print_input(table) for table in query.inputs),
        *(print_view(view) for view in query.views),
        *(print_table(table) for table in query.tables),
    ]
    return "\n\n".join([print_application(query), *statements]) + "\n"


def print_rewritten(query: Query) -> str:
    """A rewritten application as the paper shows it: one group of statements per operator (section 4.2).

    Every slicer is an input table, a view that computes and a table that stores; the join is a view over the
    categories that its slicers write; the table after it is the post-join slicer.
    """
    parts, printed = [print_application(query)], set[str]()
    for table in query.tables:
        select = table.select
        assert isinstance(select, Select)
        source = query.relation(select.source.table)
        inputs = [source]
        if isinstance(source, View):
            inputs = [query.relation(relation.table) for relation in source.select.relations]
        title = f"{_kind(source)} {source.name if isinstance(source, View) else table.name}"
        group = [f"-- {title}"]
        for item in inputs:
            if isinstance(item, InputTable) and item.name not in printed:
                printed.add(item.name)
                group.append(print_input(item))
        if isinstance(source, View):
            after = f"-- Post-{_kind(source).lower()} slicer {table.name}"
            group += [print_view(source), after, print_table(table)]
        elif table.storage.shard_by is not None:
            view = View(f"{table.name}__view", select, table.span)
            group += [print_view(view), print_table(replace(table, select=_all_of(view)))]
        else:
            group.append(print_table(table))
        parts.append("\n".join(group))
    return "\n\n".join(parts) + "\n"


def print_application(query: Query) -> str:
    """`CREATE APPLICATION`."""
    options = query.application.options
    suffix = f" WITH ({', '.join(_options(options))})" if options else ""
    return f"CREATE APPLICATION {quote(query.application.name)}{suffix};"


def print_input(table: InputTable) -> str:
    """`CREATE INPUT TABLE`, with the types that were found."""
    columns = ", ".join(f"{quote(c.name)} {_type(c.type)}" for c in table.columns)
    source = table.source
    extra = [("format", source.format)] if source.kind.connector.formats else []
    arguments = ", ".join([text(source.name), *_options((*extra, *source.options))])
    order = "" if table.disorder is None else " ORDERED"
    order += f" WITHIN {interval(table.disorder)}" if table.disorder else ""
    time = f"\nTIME {quote(table.time)} IN {table.time_unit.upper()}{order}" if table.time else ""
    head = f"CREATE INPUT TABLE {quote(table.name)} (\n  {columns}\n)"
    return f"{head} FROM {source.kind.upper()}({arguments}){time};"


def print_view(view: View) -> str:
    """`CREATE VIEW`."""
    return f"CREATE VIEW {quote(view.name)} AS\n{print_select(view.select)};"


def print_table(table: Table) -> str:
    """`CREATE TABLE`."""
    return (
        f"CREATE TABLE {quote(table.name)} AS\n{print_select(table.select)}\n{print_storage(table.storage)};"
    )


def print_storage(storage: Storage) -> str:
    """`STORAGE ... [SHARD BY ...]`."""
    named = storage.kind.connector.main
    options = [f"{named} = {text(storage.name)}"] if named else []
    for option, names in (("key", storage.keys), ("value", storage.values)):
        options += [f"{option} = ({', '.join(map(quote, names))})"] if names else []
    options += _options(storage.options)
    arguments = f"({', '.join(options)})" if options else ""
    shard = f" SHARD BY {sql(storage.shard_by)}" if storage.shard_by is not None else ""
    return f"STORAGE {storage.kind.upper()}{arguments}{shard}"


def print_select(select: AnySelect) -> str:
    """`SELECT ... FROM ... [WHERE ...]`."""
    if isinstance(select, OperatorSelect):
        return "\n".join(_operator(select))
    joined = isinstance(select, JoinSelect) or bool(select.lookups)
    columns = ",\n  ".join(_column(c, qualified=joined) for c in select.columns)
    lines = [f"SELECT\n  {columns}", f"FROM {_relation(select.source)}"]
    joins = select.joins if isinstance(select, JoinSelect) else ()
    for position in range(len(joins) + 1):
        lines += _join(joins[position - 1]) if position else ()
        for lookup in select.lookups:
            lines += _lookup(lookup, select) if lookup.after == position else ()
    where = conjunction(part.expression for part in select.where)
    if where is not None:
        lines.append(f"WHERE {sql(where, qualified=joined)}")
    return "\n".join(lines)


def _kind(source: InputTable | View) -> str:
    """What reads a source: a slicer a table, a join or operator what its own view says."""
    if isinstance(source, InputTable):
        return "Slicer"
    return "Operator" if isinstance(source.select, OperatorSelect) else "Join"


def _operator(select: OperatorSelect) -> Iterator[str]:
    columns = ",\n  ".join(_column(c, qualified=False) for c in select.columns)
    yield f"SELECT\n  {columns}"
    keys = ", ".join(sql(key) for key in select.keys)
    lengths = "".join(f", {name} => {interval(micros)}" for name, micros in select.lengths)
    call = f"TABLE {quote(select.source.table)} PARTITION BY {keys} ORDER BY {sql(select.time)}{lengths}"
    yield f"FROM {select.operator.name}({call}) AS {quote(select.source.alias)}"
    where = conjunction(part.expression for part in select.where)
    if where is not None:
        yield f"WHERE {sql(where)}"


def interval(micros: int) -> str:
    """A duration in the largest unit that gives a whole number."""
    unit, size = next((unit, size) for unit, size in _UNITS if micros % size == 0)
    count = micros // size
    return f"INTERVAL '{count}' {unit}"


def text(value: str) -> str:
    """A string literal."""
    return exp.Literal.string(value).sql(dialect="spark")


def _type(name: str) -> str:
    """A type in capitals, unless it has field names, which keep theirs."""
    return name if "<" in name else name.upper()


def _options(options: Options | Iterable[tuple[str, str]]) -> list[str]:
    return [f"{quote(name)} = {text(value)}" for name, value in options]


def _column(item: OutputColumn, *, qualified: bool) -> str:
    return f"{sql(item.expression, qualified=qualified)} AS {quote(item.name)}"


def _relation(relation: Relation) -> str:
    alias = "" if relation.alias == relation.table else f" AS {quote(relation.alias)}"
    return f"{quote(relation.table)}{alias}"


def _lookup(lookup: Lookup, select: Select | JoinSelect) -> Iterator[str]:
    types = {key.column: key.type for key in lookup.keys}
    for expression in output_expressions(select):
        for node in columns_of(expression):
            if node.table == lookup.alias:
                types[column_name(node)] = type_of(node) or "string"
    columns = ", ".join(f"{quote(name)} {_type(type_)}" for name, type_ in sorted(types.items()))
    yield f"{_JOINS[lookup.type]} LOOKUP({text(lookup.table)}) AS {quote(lookup.alias)} ({columns})"
    keys = [f"{quote(lookup.alias)}.{quote(key.column)} = {_operand(key.expression)}" for key in lookup.keys]
    yield "ON " + "\n  AND ".join(keys)


def _operand(expression: exp.Expr) -> str:
    shown = sql(expression, qualified=True)
    return f"({shown})" if isinstance(expression, exp.Binary | exp.Not) else shown


def _join(join: Join) -> Iterator[str]:
    if join.series is not None:
        yield from _series(join, join.series)
        return
    yield f"{_JOINS[join.type]} {_relation(join.right)}"
    keys, others = _conditions(join)
    match = "" if join.match is MatchMode.ALL else f"\nMATCH {join.match.value.upper()}"
    if join.consume:
        match += " CONSUME"
    if join.pad_after is not None:
        match += f"\nEMIT UNMATCHED AFTER {interval(join.pad_after)}"
    yield "ON " + "\n  AND ".join([*keys, _bounds(join.bounds), *others]) + match


def _series(join: Join, series: Series) -> Iterator[str]:
    """An ASOF join says its times; those of a time-series join are what its tables declare."""
    symmetric = series.mode.symmetric
    word = (
        "ASOF" if not symmetric else "TIMESERIES SPARSE" if series.mode is SeriesMode.SPARSE else "TIMESERIES"
    )
    kind = _JOINS[join.type].replace("JOIN", f"{word} JOIN")
    head = f"{kind} {_relation(join.right)}"
    if not symmetric:
        left, right = (sql(side, qualified=True) for side in (join.bounds.left, join.bounds.right))
        sign = "<" if series.mode is SeriesMode.NEXT else ">"
        head += f" MATCH_CONDITION ({left} {sign}{'=' if series.inclusive else ''} {right})"
    yield head
    keys, others = _conditions(join)
    if keys or others:
        yield "ON " + "\n  AND ".join([*keys, *others])
    if series.mode is SeriesMode.NEAREST:
        yield "MATCH NEAREST"
    if series.within is not None:
        yield f"WITHIN {interval(series.within)}"


def _conditions(join: Join) -> tuple[list[str], list[str]]:
    """The equalities of ON, and its other conjuncts."""
    equal = [exp.EQ(this=key.left.copy(), expression=key.right.copy()) for key in join.keys]
    others = []
    for part in (*join.left_only, *join.right_only, *join.residual):
        shown = sql(part.expression, qualified=True)
        others.append(f"({shown})" if isinstance(part.expression, exp.Or) else shown)
    return [sql(part, qualified=True) for part in equal], others


def _bounds(bounds: TimeBounds) -> str:
    left, right = (sql(side, qualified=True) for side in (bounds.left, bounds.right))
    low, high = (_shifted(left, micros) for micros in (bounds.lower, bounds.upper))
    return f"{right} BETWEEN {low} AND {high}"


def _shifted(time: str, micros: int) -> str:
    if micros == 0:
        return time
    return f"{time} {'-' if micros < 0 else '+'} {interval(abs(micros))}"


def _all_of(view: View) -> Select:
    columns = (output(c.name, column(c.name, view.name, c.type), c.type, c.span) for c in view.columns)
    return Select(Relation(view.name, view.name, view.span), tuple(columns), view.span)
