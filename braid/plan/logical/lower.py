"""The last step of planning: a rewritten query, in which every table is one operator, to frozen stages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from braid.core.side import Side
from braid.kernels.join.predicate import And, ColumnRef, Compare, Not, Or, Predicate, Truth
from braid.kernels.join.spec import OutputColumn
from braid.kernels.operator import INPUT
from braid.lang.errors import Diagnostic, PqlError
from braid.lang.query import InputTable, JoinSelect, OperatorSelect, Query, Select, Table, View, stored_twice
from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.operator import OperatorStage
from braid.plan.kinds.registry import KINDS
from braid.plan.kinds.slicer import JoinInput, SlicerStage
from braid.plan.logical.expressions import conjunction, sql
from braid.plan.logical.join_reach import bounds_of, spread
from braid.plan.logical.lookups import lower_lookups
from braid.plan.logical.neighbours import neighbour_of
from braid.plan.logical.selects import feeding
from braid.plan.logical.watermarks import with_watermarks
from braid.plan.names import (
    LIVE,
    TIME,
    category,
    column_name,
    in_block,
    is_key,
    is_special,
    join_view,
    quote,
)
from braid.plan.stages.base import Column, Plan, Projection, Sink, Source, Stage

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}


def lower(query: Query) -> Plan:
    """One stage per table, in order of dependency."""
    _check_writers(query)
    lowering = _Lowering(query)
    stages = _ordered([(table, lowering.stage(table)) for table in query.tables], query)

    def refuse(slicer: str, time: str, join: str) -> None:
        message = (
            f"{slicer} is joined by the event time {time}, but rows of any age may come out of join {join}, "
            "which has no bound in time"
        )
        hint = f"add WITHIN INTERVAL '...' to join {join}"
        spans = {view.name: view.span for view in query.views}
        span = spans.get(join_view(join), query.application.span)
        raise PqlError(query.source, [Diagnostic("PQL411", message, span, hint)])

    return Plan(query.application.name, with_watermarks(stages, refuse), query.application.options)


@dataclass(frozen=True)
class _Lowering:
    query: Query

    def stage(self, table: Table) -> Stage:
        select = table.select
        assert isinstance(select, Select)
        source = self.query.relation(select.source.table)
        if isinstance(source, InputTable):
            return self._slicer(table, select, source)
        if isinstance(source.select, OperatorSelect):
            return self._operator(table, select, source.select)
        return self._join(table, select, source)

    def _slicer(self, table: Table, select: Select, source: InputTable) -> SlicerStage:
        lookups, select = lower_lookups(select, {c.name for c in source.columns})
        columns = _projections(select)
        reads_join = self._is_join_input(table.storage.name)
        by_name = {c.name: c for c in columns}
        join_input = None
        if reads_join:
            join_input = JoinInput(
                keys=tuple(replace(c, name=in_block(c.name)) for c in columns if is_key(c.name)),
                time=replace(by_name[TIME], name=in_block(TIME)),
                live=by_name[LIVE].sql if LIVE in by_name else None,
            )
            columns = [c for c in columns if not is_special(c.name)]
        sink = self._sink(table)
        return SlicerStage(
            name=self._stage_name(table),
            source=self._source(source, join_input),
            columns=tuple(columns),
            sink=replace(sink, shard_by=None) if reads_join else sink,
            filter=_filter(select),
            join_input=join_input,
            lookups=lookups,
        )

    def _join(self, table: Table, select: Select, view: View) -> JoinStage:
        join_select = view.select
        assert isinstance(join_select, JoinSelect)
        join = join_select.joins[0]
        left, right = (self.query.relation(relation.table) for relation in join_select.relations)
        assert isinstance(left, InputTable)
        assert isinstance(right, InputTable)
        sides = dict(zip((r.alias for r in join_select.relations), Side, strict=True))
        outputs = []
        for item in join_select.columns:
            near = neighbour_of(item.expression)
            which, node = (None, item.expression) if near is None else near
            assert isinstance(node, exp.Column)
            outputs.append(OutputColumn(item.name, sides[node.table], in_block(column_name(node)), which))
        lookups, select = lower_lookups(select, {c.name for c in outputs})
        lower_, upper = bounds_of(join, interpolates=any(c.neighbour is not None for c in outputs))
        broadcast, single_shard = spread(join)
        residual = [_predicate(part.expression, sides) for part in join.residual]
        return JoinStage(
            name=self._local(left.source.name).removesuffix(f".{Side.LEFT.value}"),
            left=left.source.name,
            right=right.source.name,
            type=join.type,
            match=join.match,
            lower=lower_,
            upper=upper,
            keys=len(join.keys),
            output=tuple(outputs),
            columns=tuple(_projections(select)),
            sink=self._sink(table),
            residual=_all(residual, And) if residual else None,
            filter=_filter(select),
            table=None if self._is_internal(table) else table.name,
            series=join.series.mode if join.series else None,
            within=join.series.within if join.series else None,
            inclusive=join.series.inclusive if join.series else True,
            consume=join.consume,
            pad_after=join.pad_after,
            lookups=lookups,
            broadcast=broadcast,
            single_shard=single_shard,
        )

    def _operator(self, table: Table, select: Select, operator: OperatorSelect) -> OperatorStage:
        source = self.query.relation(operator.source.table)
        assert isinstance(source, InputTable)
        output = tuple(in_block(c.name) for c in operator.columns)
        lookups, select = lower_lookups(select, set(output))
        kind = KINDS[operator.operator.kind]
        assert issubclass(kind, OperatorStage)
        return kind(
            name=self._local(source.source.name).removesuffix(f".{INPUT}"),
            input=source.source.name,
            keys=len(operator.keys),
            lengths=operator.lengths,
            output=output,
            columns=tuple(_projections(select)),
            sink=self._sink(table),
            filter=_filter(select),
            table=None if self._is_internal(table) else table.name,
            lookups=lookups,
        )

    def _source(self, table: InputTable, join_input: JoinInput | None) -> Source:
        by_time = table.time is not None and (join_input is None or join_input.time.sql == quote(table.time))
        return Source(
            kind=table.source.kind,
            name=table.source.name,
            columns=tuple(Column(c.name, c.type) for c in table.columns),
            format=table.source.format,
            time=table.time,
            time_unit=table.time_unit,
            options=table.source.options,
            internal=table.source.kind.connector.logged and table.source.name in self._written(),
            disorder=table.disorder if by_time else None,
        )

    def _sink(self, table: Table) -> Sink:
        storage = table.storage
        return Sink(
            kind=storage.kind,
            name=storage.name,
            options=storage.options,
            shard_by=None if storage.shard_by is None else sql(storage.shard_by),
            internal=self._is_internal(table),
            keys=storage.keys,
            values=storage.values,
        )

    def _stage_name(self, table: Table) -> str:
        return self._local(table.storage.name) if self._is_internal(table) else table.name

    def _local(self, name: str) -> str:
        return name.removeprefix(category(self.query.application.name, ""))

    def _is_internal(self, table: Table) -> bool:
        prefix = category(self.query.application.name, "")
        return table.storage.kind.connector.logged and table.storage.name.startswith(prefix)

    def _is_join_input(self, name: str) -> bool:
        tables = (self.query.relation(name) for name in feeding(self.query))
        return any(isinstance(table, InputTable) and table.source.name == name for table in tables)

    def _written(self) -> set[str]:
        return {table.storage.name for table in self.query.tables if table.storage.kind.connector.logged}


def _check_writers(query: Query) -> None:
    """A category has one writer, which numbers its commits; the planner's own categories count too."""
    for first, table in stored_twice(query.tables):
        message = (
            f"table {table.name} stores in category {table.storage.name}, which {first.name} writes already"
        )
        hint = "store each table in a category of its own"
        raise PqlError(query.source, [Diagnostic("PQL505", message, table.span, hint)])


def _projections(select: Select) -> list[Projection]:
    return [Projection(c.name, sql(c.expression), c.type) for c in select.columns]


def _filter(select: Select) -> str | None:
    where = conjunction(part.expression for part in select.where)
    return None if where is None else sql(where)


def _predicate(expression: exp.Expr, sides: dict[str, Side]) -> Predicate:
    expression = expression.unnest()
    if isinstance(expression, exp.Column):
        return Truth(ColumnRef(sides[expression.table], column_name(expression)))
    if isinstance(expression, exp.Not):
        return Not(_predicate(expression.this, sides))
    if isinstance(expression, exp.And | exp.Or):
        parts = [_predicate(part, sides) for part in (expression.left, expression.right)]
        return _all(parts, And) if isinstance(expression, exp.And) else _all(parts, Or)
    if isinstance(expression, exp.NullSafeNEQ):
        return Not(_compare("<=>", expression, sides))
    return _compare(_OPERATORS[type(expression)], expression, sides)


def _compare(operator: str, expression: exp.Expr, sides: dict[str, Side]) -> Compare:
    operands = []
    for node in (expression.args["this"], expression.args["expression"]):
        node = node.unnest()
        operands.append(ColumnRef(sides[node.table], column_name(node)))
    return Compare(operator, *operands)


def _all(parts: Iterable[Predicate], kind: type[And] | type[Or]) -> Predicate:
    """The parts as one AND or OR, with nested ones of the same kind taken in."""
    flat: list[Predicate] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else (part,)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _ordered(found: list[tuple[Table, Stage]], query: Query) -> list[Stage]:
    """A stage after those that it reads, and that maintain what it looks up; else in the program's order.

    A table may be maintained from what its own records have been looked up for: such a stage comes as late
    as it can.
    """
    waiting, ordered = list(found), list[Stage]()
    while waiting:
        missing = {stage.sink.name for _, stage in waiting if stage.sink.kind.connector.logged}
        ready = [(t, s) for t, s in waiting if not missing.intersection(s.reads().values())]
        if not ready:
            table, stage = waiting[0]
            message = f"table {table.name} reads what it writes: {', '.join(stage.reads().values())}"
            hint = "store the rows in another category, or read another one"
            raise PqlError(query.source, [Diagnostic("PQL206", message, table.span, hint)])
        kept = {stage.sink.name for _, stage in waiting if stage.sink.kind.connector.keyed}
        first = next(
            (one for one in ready if not kept.intersection(lookup.table for lookup in one[1].lookups)),
            ready[0],
        )
        ordered.append(first[1])
        waiting.remove(first)
    return ordered
