"""The typed query: what a PQL program means, with every name resolved and every type known.

`braid.lang` writes it and `braid.plan` reads it. All records are frozen. Expressions are sqlglot
expressions of the `braid.lang.dialect.Pql` dialect and must be treated as frozen too: `.copy()` before
changing one. In every expression

- each column is `exp.Column(this=<declared name>, table=<alias of its relation>)`, spelled as declared;
- each node whose type is known carries it in `.type`; columns and output expressions always do;
- nothing is left of `*`, of output aliases or of parentheses around a whole conjunct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from braid.core.connectors import SinkKind, SourceKind
from braid.kernels.join.spec import JoinType, MatchMode, SeriesMode
from braid.lang.operators.declaration import Declaration
from braid.lang.source import SourceText, Span


@dataclass(frozen=True)
class Column:
    """A column of an input table or view.

    Parameters
    ----------
    name
        As declared; names are matched regardless of case.
    type
        Spark SQL type name in lower case: `string`, `bigint`, `double`, `timestamp`, `array<string>`, ...
    span
        Where it is declared (input tables) or computed (views).
    declared
        Whether the program states the type; otherwise it was inferred from use.
    """

    name: str
    type: str
    span: Span
    declared: bool = False


Options = tuple[tuple[str, str], ...]
"""Named options in the order written, names in lower case, values as text."""


@dataclass(frozen=True)
class Application:
    """`CREATE APPLICATION name [WITH (...)]`; the options have been checked with `braid.core.config`."""

    name: str
    span: Span
    options: Options = ()


@dataclass(frozen=True)
class InputSource:
    """Where an input table reads.

    Parameters
    ----------
    kind
        `scribe`, `kafka` or `files`.
    name
        Category, topic or glob.
    format
        `json`, `csv` or `parquet` for files; `json` otherwise.
    options
        Any further options, in the order written (without `format`).
    """

    kind: SourceKind
    name: str
    format: str = "json"
    options: Options = ()


@dataclass(frozen=True)
class InputTable:
    """`CREATE INPUT TABLE`.

    Parameters
    ----------
    time
        The event-time column: as declared with TIME, else the first column that a join's time bounds use
        as is. None when no join needs it. Its type is `timestamp`.
    time_unit
        Unit of numeric event times in the data: `seconds`, `milliseconds` or `microseconds`.
    time_columns
        All columns used as event time, `time` first; several when joins bound different columns.
    disorder
        By how many microseconds at most a record's `time` is declared to be behind that of a record before
        it: 0 if records come in order, None if nothing is declared.
    """

    name: str
    columns: tuple[Column, ...]
    source: InputSource
    span: Span
    time: str | None = None
    time_unit: str = "seconds"
    time_columns: tuple[str, ...] = ()
    disorder: int | None = None


@dataclass(frozen=True)
class Relation:
    """One table of a FROM clause.

    `alias` is the qualifier that expressions use: the alias as written, or `table` when there is none. It is
    unique in its SELECT. `table` is the declared name of an input table or view; in a self join two
    relations have the same `table`.
    """

    alias: str
    table: str
    span: Span


@dataclass(frozen=True)
class Condition:
    """One conjunct of ON or WHERE: a boolean expression, and the aliases of the relations it refers to."""

    expression: exp.Expr
    relations: frozenset[str]
    span: Span


@dataclass(frozen=True)
class Equality:
    """`left = right` as a join key: one expression per side.

    `type` is the Spark SQL type in which both are compared; cast an operand whose own type differs.
    """

    left: exp.Expr
    right: exp.Expr
    type: str
    span: Span


@dataclass(frozen=True)
class TimeBounds:
    """`left + lower <= right <= left + upper`, in signed microseconds, both inclusive, `lower <= upper`.

    `left` and `right` are timestamp expressions without any constant offset. `left` refers to exactly one
    relation left of the join (any of them in a chain), `right` to the joined relation. Conjuncts that these
    bounds imply appear nowhere else.
    """

    left: exp.Expr
    right: exp.Expr
    lower: int
    upper: int
    span: Span


@dataclass(frozen=True)
class Series:
    """How a time-series or ASOF join pairs rows.

    Parameters
    ----------
    mode
        Which neighbours are paired.
    within
        Largest distance in time, in microseconds; None is no limit.
    inclusive
        Whether a right row at the very time of the left row counts as previous, or as next.
    """

    mode: SeriesMode
    within: int | None = None
    inclusive: bool = True


@dataclass(frozen=True)
class LookupKey:
    """A key column of a lookup table, and the expression that it must equal, compared as `type`."""

    column: str
    expression: exp.Expr
    type: str


@dataclass(frozen=True)
class Lookup:
    """A lookup join: at most one row of a keyed table beside each row.

    Parameters
    ----------
    alias
        The qualifier that expressions use for its columns.
    table
        The lookup table.
    type
        INNER or LEFT.
    keys
        Its keys; expressions are over the relations and lookups before it.
    after
        How many joins of the FROM clause come before it.
    """

    alias: str
    table: str
    type: JoinType
    keys: tuple[LookupKey, ...]
    span: Span
    after: int = 0


@dataclass(frozen=True)
class Join:
    """One join of a chain. Its left side is everything before it in FROM, its right side is `right`.

    The ON clause is the AND of `keys`, `bounds`, `residual`, `left_only` and `right_only`.

    Parameters
    ----------
    right
        The joined relation.
    type, match
        Join type, and which matches count; `MatchMode.ALL` unless MATCH says otherwise.
    keys
        Equalities between an expression of the left side and one of the right side; empty for a
        time-only join. Null-safe equality (`<=>`) is a residual.
    bounds
        The time window; of a time-series or ASOF join only the event times of both sides.
    residual
        Conjuncts over both sides that are neither key nor bound.
    left_only, right_only
        Conjuncts over one side. A row for which one is not true can match nothing. A conjunct that refers
        to no column is in `left_only`.
    series
        Of a time-series or ASOF join, how rows are paired; None for a join by a window.
    consume, pad_after
        Whether each right row matches at most once, and the wall-clock wait in microseconds after which an
        unmatched row comes out; None waits until the window has closed.
    """

    right: Relation
    type: JoinType
    match: MatchMode
    keys: tuple[Equality, ...]
    bounds: TimeBounds
    span: Span
    residual: tuple[Condition, ...] = ()
    left_only: tuple[Condition, ...] = ()
    right_only: tuple[Condition, ...] = ()
    series: Series | None = None
    consume: bool = False
    pad_after: int | None = None


@dataclass(frozen=True)
class OutputColumn:
    """One column of a SELECT list.

    `relations` are the aliases that `expression` refers to: none for a constant, several for an expression
    over more than one side.
    """

    name: str
    expression: exp.Expr
    type: str
    relations: frozenset[str]
    span: Span


@dataclass(frozen=True)
class Select:
    """Projection and filter of one relation and of what is looked up for it.

    `where` is a conjunction, empty for no filter.
    """

    source: Relation
    columns: tuple[OutputColumn, ...]
    span: Span
    where: tuple[Condition, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The one stream that it reads."""
        return (self.source,)


@dataclass(frozen=True)
class JoinSelect:
    """A chain of joins and lookups, left to right; `where` is applied to the result of the last one."""

    source: Relation
    joins: tuple[Join, ...]
    columns: tuple[OutputColumn, ...]
    span: Span
    where: tuple[Condition, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    @property
    def relations(self) -> tuple[Relation, ...]:
        """All streams in order of FROM, without lookups; join `i` has `relations[: i + 1]` on its left."""
        return (self.source, *(join.right for join in self.joins))


@dataclass(frozen=True)
class OperatorSelect:
    """What an operator leaves of the rows of one relation; `where` is applied to that.

    Parameters
    ----------
    operator
        How it is called.
    keys
        Rows with equal keys belong together; NULLs are equal.
    time
        The event time, a timestamp.
    lengths
        Its arguments by name, in microseconds.
    """

    source: Relation
    operator: Declaration
    keys: tuple[exp.Expr, ...]
    time: exp.Expr
    lengths: tuple[tuple[str, int], ...]
    columns: tuple[OutputColumn, ...]
    span: Span
    where: tuple[Condition, ...] = ()

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """None: a view over it may have some."""
        return ()

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The one that it reads."""
        return (self.source,)


AnySelect = Select | JoinSelect | OperatorSelect
Stateful = JoinSelect | OperatorSelect
"""What needs a query of its own, with slicers before it."""


@dataclass(frozen=True)
class View:
    """`CREATE VIEW name AS ...`."""

    name: str
    select: AnySelect
    span: Span

    @property
    def columns(self) -> tuple[Column, ...]:
        """The view's columns as others see them."""
        return tuple(Column(c.name, c.type, c.span) for c in self.select.columns)


@dataclass(frozen=True)
class Storage:
    """Where a table's rows go.

    Parameters
    ----------
    kind
        `scribe`, `hive`, `kafka`, `laser` or `console`.
    name
        Category, `database.table`, topic or lookup table; empty for the console.
    options
        Any further options, in the order written.
    shard_by
        Expression over the table's output columns (unqualified), or None.
    keys, values
        Output columns of a lookup table: what records are found by, and what they hold.
    """

    kind: SinkKind
    name: str
    options: Options = ()
    shard_by: exp.Expr | None = None
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """`CREATE TABLE name AS ... STORAGE ...`."""

    name: str
    select: AnySelect
    storage: Storage
    span: Span

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's columns."""
        return tuple(Column(c.name, c.type, c.span) for c in self.select.columns)


@dataclass(frozen=True)
class Query:
    """A whole program. `views` are in dependency order; tables are leaves, which nothing reads."""

    application: Application
    inputs: tuple[InputTable, ...]
    views: tuple[View, ...]
    tables: tuple[Table, ...]
    source: SourceText = field(repr=False, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """Rendered warnings, such as an unused input."""

    def relation(self, name: str) -> InputTable | View:
        """The input table or view of that declared name."""
        return self._by_name()[name]

    def statements(self) -> Iterator[View | Table]:
        """Views in dependency order, then tables."""
        yield from self.views
        yield from self.tables

    def _by_name(self) -> dict[str, InputTable | View]:
        found: dict[str, InputTable | View] = {table.name: table for table in self.inputs}
        found.update((view.name, view) for view in self.views)
        return found


def stored_twice(tables: Iterable[Table]) -> Iterator[tuple[Table, Table]]:
    """Tables that are stored where an earlier one is, after that one; a console takes any number."""
    first: dict[tuple[SinkKind, str], Table] = {}
    for table in tables:
        place = (table.storage.kind, table.storage.name)
        if place in first and not table.storage.kind.connector.shared:
            yield first[place], table
        first.setdefault(place, table)
