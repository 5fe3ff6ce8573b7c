"""The plan: frozen stages, each of which becomes one streaming query. Enough to run without the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from braid.kernels.predicate import Predicate
from braid.kernels.spec import JoinType, MatchMode, OutputColumn

SCHEMA_VERSION = 1


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
        `scribe` (a log category), `kafka` (a topic) or `files` (a glob).
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
    """

    kind: str
    name: str
    columns: tuple[Column, ...]
    format: str = "json"
    time: str | None = None
    time_unit: str = "seconds"
    options: tuple[tuple[str, str], ...] = ()
    internal: bool = False


@dataclass(frozen=True)
class Sink:
    """Where a stage writes: `scribe`, `hive`, `kafka` or `console`, with the program's options.

    Parameters
    ----------
    shard_by
        Spark SQL over the written columns; None for no preference.
    internal
        Whether the category belongs to the application itself: another stage of the plan reads it.
    time_columns
        Timestamp columns of an internal category that are event times, so that their watermarks travel on.
    """

    kind: str
    name: str
    options: tuple[tuple[str, str], ...] = ()
    shard_by: str | None = None
    internal: bool = False
    time_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class JoinInput:
    """What a slicer adds for a join: the sharding key, the event time, and whether a row can match.

    `keys` are written as `__key0`, `__key1`, ...; `time`, a timestamp, as `__time` in microseconds since the
    epoch; `live` as `__live`. Keys have the same type on both sides, and floating-point keys are normalised,
    so that equal keys have equal bits.
    """

    keys: tuple[Projection, ...]
    time: Projection
    live: str | None = None


@dataclass(frozen=True)
class SlicerStage:
    """A stateless query: read, filter, project, and write to a sink or as sharded blocks for a join."""

    name: str
    source: Source
    columns: tuple[Projection, ...]
    sink: Sink
    filter: str | None = None
    join_input: JoinInput | None = None


@dataclass(frozen=True)
class JoinStage:
    """A join of two categories, then a post-join slicer in the same query.

    Parameters
    ----------
    name
        The join view's name; also names its state.
    left, right
        Categories that the two slicers write.
    lower, upper
        `left.time + lower <= right.time <= left.time + upper`, signed microseconds, inclusive.
    output
        Columns that leave the join kernel.
    columns, filter
        The post-join slicer: Spark SQL over the columns of `output`.
    table
        The table that the post-join slicer stores; None when it writes a category of the application.
    """

    name: str
    left: str
    right: str
    type: JoinType
    match: MatchMode
    lower: int
    upper: int
    keys: int
    output: tuple[OutputColumn, ...]
    columns: tuple[Projection, ...]
    sink: Sink
    residual: Predicate | None = None
    filter: str | None = None
    table: str | None = None


Stage = SlicerStage | JoinStage


@dataclass(frozen=True)
class Plan:
    """A whole application: stages in dependency order (a stage comes after those it reads)."""

    application: str
    stages: tuple[Stage, ...]
    options: tuple[tuple[str, str], ...] = ()
    schema_version: int = field(default=SCHEMA_VERSION)
