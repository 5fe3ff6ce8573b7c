"""The plan: frozen stages, each of which becomes one streaming query. Enough to run without the text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

from braid.core.columns import TIME
from braid.core.config import AppConfig, option_texts
from braid.core.connectors import SinkKind, SourceKind
from braid.core.json_values import Json
from braid.kernels.join.spec import JoinType
from braid.plan.stages.event_times import EventTimes, Refuse

if TYPE_CHECKING:
    from braid.plan.physical.operation import Facts, Operation
    from braid.plan.show.outline import Outline
    from braid.plan.stages.fields import Fields
    from braid.plan.stages.tree import Node
    from braid.plan.update.change import Change
    from braid.plan.update.index import PlanIndex

SCHEMA_VERSION = 2
"""Version 2 adds fields, all with defaults: time series, lookups, watermarks. Version 1 is still read."""


TIME_TYPES = ("timestamp", "timestamp_ltz", "timestamp_ntz")
"""Spark SQL types that are points in time."""


@dataclass(frozen=True)
class Column:
    """A named column with its Spark SQL type (`bigint`, `string`, `timestamp`, ...)."""

    name: str
    type: str


@dataclass(frozen=True)
class Projection:
    """A column computed by a Spark SQL expression over the stage's input columns."""

    name: str
    sql: str
    type: str


@dataclass(frozen=True)
class Source:
    """Where a slicer reads.

    Parameters
    ----------
    kind
        A log category, a topic or a glob.
    name
        Category, topic or glob.
    columns
        Columns to read, with types; records that do not fit go to the dead-letter category.
    format
        `json`, `csv` or `parquet` for files; ignored otherwise.
    time, time_unit
        The event-time column, and the unit of its numbers: `seconds`, `milliseconds`, `microseconds`.
    options
        Further options of the source, as written in the program.
    internal
        Whether the category is written by another stage of the same plan (typed, never malformed).
    disorder
        By how many microseconds at most a record is declared to come after a later one: stream time is the
        greatest time seen, less this. None if nothing is declared, and stream time is estimated.
    """

    kind: SourceKind
    name: str
    columns: tuple[Column, ...]
    format: str = "json"
    time: str | None = None
    time_unit: str = "seconds"
    options: tuple[tuple[str, str], ...] = ()
    internal: bool = False
    disorder: int | None = None


@dataclass(frozen=True)
class Sink:
    """Where a stage writes, with the program's options.

    Parameters
    ----------
    keys, values
        Of a `laser` table: the columns that records are found by, and those that they hold. Its time to
        live, if any, is the option `ttl`.
    shard_by
        Spark SQL over the written columns; None for no preference.
    internal
        Whether the category belongs to the application itself: another stage of the plan reads it.
    time_columns
        Timestamp columns of an internal category that are event times, so that their watermarks travel on.
    """

    kind: SinkKind
    name: str
    options: tuple[tuple[str, str], ...] = ()
    shard_by: str | None = None
    internal: bool = False
    time_columns: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Kind and name, in words."""
        return f"{self.kind} {self.name}".strip()


@dataclass(frozen=True)
class LookupColumn:
    """A column of a lookup table: `name` is what the stage's expressions call it."""

    name: str
    column: str
    type: str


@dataclass(frozen=True)
class LookupJoin:
    """Rows of a keyed table beside the rows of a stage, before its filter and its projections.

    Parameters
    ----------
    table
        Name of the lookup table.
    type
        INNER drops rows whose key is not there, LEFT gives NULLs. A NULL in a key is never there.
    keys
        The lookup's key columns, each with an expression over what the stage reads and over the columns of
        the lookups before this one.
    columns
        What to fetch.
    """

    table: str
    type: JoinType
    keys: tuple[Projection, ...]
    columns: tuple[LookupColumn, ...]

    @property
    def text(self) -> str:
        """`look up users by key = user: name`."""
        keys = ", ".join(f"{key.name} = {key.sql}" for key in self.keys)
        columns = ", ".join(f"{c.name} = {c.column} {c.type}" for c in self.columns)
        rows = "rows without one are dropped" if self.type is JoinType.INNER else "or NULLs"
        return f"look up {self.table} by {keys}: {columns or 'nothing but whether it is there'}; {rows}"


@dataclass(frozen=True, kw_only=True)
class Stage(ABC):
    """One streaming query of an application: reads, computes, and writes to one sink.

    A kind of stage is a subclass in a file of its own, which `braid.plan.kinds.registry` finds. It says
    what it reads and how it is stored; how it is shown, compared and followed by event times has defaults.

    Parameters
    ----------
    name
        Names the query, its checkpoint and its state.
    lookups
        Lookup joins, in order, before `filter` and `columns`.
    filter, columns
        The last step: Spark SQL over what the stage has computed and looked up.
    """

    kind: ClassVar[str]
    """Its name in the JSON of a plan, in metrics and in words."""
    stateful: ClassVar[bool] = False
    """Whether it keeps rows between micro-batches: it is paced, drained, and compared by its name."""
    change_kind: ClassVar[str] = "stage"
    """What the rules on its updates begin with."""

    name: str
    columns: tuple[Projection, ...]
    sink: Sink
    filter: str | None = None
    lookups: tuple[LookupJoin, ...] = ()

    # -- data -------------------------------------------------------------------------------------

    @abstractmethod
    def reads(self) -> dict[str, str]:
        """The categories of the application that it reads, by the name of the input."""

    def categories(self) -> dict[str, tuple[str, str | None]]:
        """All categories that it reads, whoever writes them, by input: name, and event-time column if any."""
        return {name: (category, TIME) for name, category in self.reads().items()}

    @abstractmethod
    def to_json(self) -> dict[str, Json]:
        """The stage as JSON values, without its kind."""

    @classmethod
    @abstractmethod
    def from_json(cls, fields: Fields) -> Self:
        """Read back what `to_json` gave, now or in an earlier version."""

    @abstractmethod
    def operation(self, plan: Plan, options: AppConfig, facts: Facts) -> Operation:
        """How it runs, as decided by the plan and by what is known besides it."""

    @property
    def table(self) -> str | None:
        """The table that it stores; None when it writes a category of the application."""
        return None if self.sink.internal else self.name

    @property
    def private(self) -> bool:
        """Whether only the application reads the category that it writes."""
        return self.sink.internal or self.sink.kind.connector.relayed

    @property
    def hashed(self) -> bool:
        """Whether its rows have a hash, by which their blocks are cut and sorted."""
        return self.sink.shard_by is not None

    @property
    def disorder(self) -> int | None:
        """How far its rows are declared to be out of order; None if nothing is declared."""
        return None

    @property
    def propagates(self) -> bool:
        """Whether the event time that it writes for an operator carries the watermark of one upstream."""
        return False

    def times(self) -> tuple[str, ...]:
        """Columns of what it writes that are times."""
        return tuple(column.name for column in self.columns if column.type in TIME_TYPES)

    def with_event_times(self, known: Mapping[str, EventTimes], refuse: Refuse) -> tuple[Stage, EventTimes]:
        """The stage with the watermarks that it passes on, and the event times of what it writes.

        `known` has those of the categories before it.
        """
        return self, EventTimes()

    # -- words ------------------------------------------------------------------------------------

    def title(self) -> str:
        """What it is, with its name, in one line."""
        return f"{self.kind} {self.name}"

    def label(self) -> str:
        """What stands in its box of a graph."""
        return self.title()

    def summary(self) -> str:
        """What it does, without its name, for its status."""
        return self.kind

    def sources(self) -> list[tuple[str, str]]:
        """Kind and name of everything that it reads as a stream."""
        return [(SourceKind.SCRIBE.value, category) for category in self.reads().values()]

    def tree(self, outline: Outline) -> Node:
        """The stage and what is behind it, for explain."""
        node = outline.plain(self)
        node.children += [outline.category(category) for category in self.reads().values()]
        return node

    # -- updates ----------------------------------------------------------------------------------

    def shape(self) -> str:
        """What says most about it when it is new or gone."""
        return self.title()

    def fed_by(self, index: PlanIndex) -> str:
        """What its rows are computed from, as far as another plan could compute from the same."""
        return f"{self.kind} {self.name}"

    def changes(self, before: PlanIndex, after: PlanIndex) -> Iterator[Change]:
        """What changes in a stateful stage, from its namesake of the same kind, apart from its table."""
        return after.operator_changes(before.operators[self.name], self)

    def adopting(self, plan: Plan, old: Stage, before: Plan) -> dict[str, Stage]:
        """Stages of its plan as they are to be, by name, to go on from what its namesake has written."""
        return {}

    def source_changes(self, old: Stage, subject: str) -> Iterator[Change]:
        """Changes in how a table reads the source that it has in common with the old one."""
        return iter(())


@dataclass(frozen=True)
class Plan:
    """A whole application: stages in dependency order (a stage comes after those it reads)."""

    application: str
    stages: tuple[Stage, ...]
    options: tuple[tuple[str, str], ...] = ()
    schema_version: int = field(default=SCHEMA_VERSION)

    def with_options(self, options: AppConfig) -> Plan:
        """The plan, run with other options than those that its program has."""
        return replace(self, options=tuple(option_texts(options).items()))

    def stage(self, name: str) -> Stage:
        """The stage of a name."""
        return next(stage for stage in self.stages if stage.name == name)

    def writer(self, category: str) -> Stage | None:
        """The stage that writes a category."""
        return next((stage for stage in self.stages if stage.sink.name == category), None)
