"""Operators called in FROM: what they put together, by which time."""

from __future__ import annotations

from sqlglot import exp

from braid.lang import sql_types as types
from braid.lang.dialect import span_of
from braid.lang.errors import Report
from braid.lang.names.event_times import TimeOf, declared_time
from braid.lang.names.on_clauses import relation
from braid.lang.names.resolve import ResolvedCall, ResolvedSelect
from braid.lang.query import Condition, OperatorSelect, OutputColumn


def build_call(
    select: ResolvedSelect,
    call: ResolvedCall,
    columns: tuple[OutputColumn, ...],
    where: tuple[Condition, ...],
    time_of: TimeOf,
    report: Report,
) -> OperatorSelect | None:
    """The SELECT over an operator, or None when a key or the event time has been reported."""
    source, operator = select.syntax.source, call.syntax.operator
    time = call.time or declared_time(
        source, select.tables, time_of, operator.name, "say it with ORDER BY after PARTITION BY", report
    )
    unusable = [key for key in call.keys if not _is_key(key, call, report)]
    if time is None or unusable:
        return None
    return OperatorSelect(
        relation(source, select.tables),
        operator,
        call.keys,
        time,
        call.syntax.lengths,
        columns,
        select.syntax.span,
        where,
    )


def _is_key(key: exp.Expr, call: ResolvedCall, report: Report) -> bool:
    """Whether rows can be told apart by an expression."""
    type_ = types.from_sqlglot(key.type) if key.type is not None else None
    if types.comparable(type_):
        return True
    text = f"rows cannot be put together by {type_ or 'a value of unknown type'}"
    report.add("PQL415", span_of(key) or call.syntax.span, text, "write PARTITION BY with a plain value")
    return False
