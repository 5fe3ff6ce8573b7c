"""The program as written: one record per statement, before names and types are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from sqlglot import exp

from braid.kernels.join.spec import JoinType, MatchMode
from braid.lang.operators.declaration import Declaration
from braid.lang.source import Span


@dataclass(frozen=True)
class Name:
    """An identifier and its place."""

    text: str
    span: Span

    @property
    def key(self) -> str:
        """The form in which names are compared."""
        return self.text.lower()


@dataclass(frozen=True)
class Argument:
    """`value` or `name = value` in the parentheses of WITH, a source or a storage."""

    name: Name | None
    value: str
    span: Span
    names: tuple[Name, ...] = ()
    """Of a list of columns in parentheses, such as `key = (a, b)`; the value is empty then."""


@dataclass(frozen=True)
class Call:
    """A source or storage: a word and its arguments."""

    kind: Name
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True)
class ApplicationSyntax:
    """`CREATE APPLICATION`."""

    name: Name
    options: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class ColumnSyntax:
    """A column of an input table; `type` is the Spark SQL type or None."""

    name: Name
    type: str | None
    span: Span


@dataclass(frozen=True)
class InputSyntax:
    """`CREATE INPUT TABLE`."""

    name: Name
    columns: tuple[ColumnSyntax, ...]
    source: Call
    time: Name | None = None
    unit: str = "seconds"
    disorder: int | None = None


@dataclass(frozen=True)
class ItemSyntax:
    """One item of a SELECT list."""

    expression: exp.Expr
    alias: Name | None
    span: Span


@dataclass(frozen=True)
class CallSyntax:
    """An operator called in FROM, its arguments in the order declared; no `time` means that of the table."""

    operator: Declaration
    keys: tuple[exp.Expr, ...]
    time: exp.Expr | None
    lengths: tuple[tuple[str, int], ...]
    span: Span


@dataclass(frozen=True)
class RelationSyntax:
    """A table in FROM, with its alias; of a LOOKUP also the columns that it declares, if any.

    With `call`, the rows of the table are what the operator leaves of them.
    """

    table: Name
    alias: Name
    lookup: bool = False
    columns: tuple[ColumnSyntax, ...] = ()
    call: CallSyntax | None = None

    @property
    def span(self) -> Span:
        """Table and alias."""
        return self.table.span.to(self.alias.span)


class JoinKind(StrEnum):
    """What pairs two rows: a window of time, or being neighbours in time."""

    WINDOW = "JOIN"
    TIMESERIES = "TIMESERIES JOIN"
    SPARSE = "TIMESERIES SPARSE JOIN"
    ASOF = "ASOF JOIN"


@dataclass(frozen=True)
class JoinSyntax:
    """One JOIN with its clauses.

    Parameters
    ----------
    on
        The condition; None when there is none, or when it could not be read and has been reported.
    condition
        Of an ASOF join: MATCH_CONDITION, or what INTERPOLATE in ON stands for.
    within
        Largest distance in time, in microseconds.
    consume, pad_after
        MATCH FIRST CONSUME, and the wait of EMIT UNMATCHED AFTER in microseconds.
    complete
        Whether all of it could be read.
    """

    type: JoinType
    relation: RelationSyntax
    on: exp.Expr | None
    on_span: Span
    match: MatchMode
    span: Span
    kind: JoinKind = JoinKind.WINDOW
    condition: exp.Expr | None = None
    within: int | None = None
    consume: bool = False
    pad_after: int | None = None
    complete: bool = True


@dataclass(frozen=True)
class SelectSyntax:
    """A SELECT; `complete` is False when a part of it could not be read and has been reported."""

    items: tuple[ItemSyntax, ...]
    source: RelationSyntax
    span: Span
    joins: tuple[JoinSyntax, ...] = ()
    where: exp.Expr | None = None
    complete: bool = True

    @property
    def relations(self) -> tuple[RelationSyntax, ...]:
        """All tables of FROM, in order."""
        return (self.source, *(join.relation for join in self.joins))


@dataclass(frozen=True)
class ViewSyntax:
    """`CREATE VIEW`."""

    name: Name
    select: SelectSyntax


@dataclass(frozen=True)
class TableSyntax:
    """`CREATE TABLE`."""

    name: Name
    select: SelectSyntax
    storage: Call
    shard_by: exp.Expr | None = None


Statement = ApplicationSyntax | InputSyntax | ViewSyntax | TableSyntax


@dataclass
class Program:
    """All statements that could be read, in order.

    `broken` holds the names (in lower case) that a statement with a syntax error would have defined, so
    that using them is not reported as a second error.
    """

    applications: list[ApplicationSyntax] = field(default_factory=list)
    inputs: list[InputSyntax] = field(default_factory=list)
    views: list[ViewSyntax] = field(default_factory=list)
    tables: list[TableSyntax] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
