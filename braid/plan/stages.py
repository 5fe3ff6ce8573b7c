"""The plan: frozen stages, each of which becomes one streaming query. Enough to run without the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from braid.core.side import Side
from braid.kernels.join.predicate import Predicate
from braid.kernels.join.spec import JoinType, MatchMode, OutputColumn, SeriesMode

SCHEMA_VERSION = 2
"""Version 2 adds fields, all with defaults: time series, lookups, watermarks. Version 1 is still read."""


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
    disorder
        By how many microseconds at most a record is declared to come after a later one: stream time is the
        greatest time seen, less this. None if nothing is declared, and stream time is estimated.
    """

    kind: str
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
    """Where a stage writes: `scribe`, `hive`, `kafka`, `laser` or `console`, with the program's options.

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

    kind: str
    name: str
    options: tuple[tuple[str, str], ...] = ()
    shard_by: str | None = None
    internal: bool = False
    time_columns: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class TimeColumn:
    """An event time in a join's output, and what holds its watermark back.

    The watermark of `column` is the lesser of two: that of the input's column, as of the last commit that
    was admitted, and `held - lag`, where `held` is the least event time of `side` that is still buffered or
    may still come (`braid.eventtime.propagated.output_watermarks`).

    Parameters
    ----------
    column
        The column of the sink.
    side, input
        The input that it comes from, and its column there: `__time` for the event time joined by.
    lag
        How far it may lie before its side's event time, in microseconds.
    """

    column: str
    side: Side
    input: str
    lag: int = 0


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
    """A stateless query: read, filter, project, and write to a sink or as sharded blocks for a join.

    Parameters
    ----------
    lookups
        Lookup joins, in order, before `filter` and `columns`.
    watermarks
        Columns written (`__time` among them) that carry the watermark of a column of the source, with it.
    """

    name: str
    source: Source
    columns: tuple[Projection, ...]
    sink: Sink
    filter: str | None = None
    join_input: JoinInput | None = None
    lookups: tuple[LookupJoin, ...] = ()
    watermarks: tuple[tuple[str, str], ...] = ()


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
        `left.time + lower <= right.time <= left.time + upper`, signed microseconds, inclusive. They hold for
        the pairs of a time-series join too; `FOREVER` away is no bound.
    output
        Columns that leave the join kernel.
    columns, filter
        The post-join slicer: Spark SQL over the columns of `output`.
    table
        The table that the post-join slicer stores; None when it writes a category of the application.
    series, within, inclusive
        Of a time-series or ASOF join: which neighbours are paired, how far apart at most, and whether one
        at the very same time counts. `match` and `residual` say nothing then.
    consume, pad_after
        Whether a right row matches at most once, and the wall-clock wait before a row comes out padded.
    lookups
        Lookup joins over the columns of `output`, before `filter` and `columns`.
    broadcast
        Of a join without keys: the side that every shard reads whole, while the other one is split.
    single_shard
        Whether a join without keys has to see all rows in one place.
    watermarks
        Event times in what it writes to a category of the application.
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
    series: SeriesMode | None = None
    within: int | None = None
    inclusive: bool = True
    consume: bool = False
    pad_after: int | None = None
    lookups: tuple[LookupJoin, ...] = ()
    broadcast: Side | None = None
    single_shard: bool = False
    watermarks: tuple[TimeColumn, ...] = ()


Stage = SlicerStage | JoinStage


@dataclass(frozen=True)
class Plan:
    """A whole application: stages in dependency order (a stage comes after those it reads)."""

    application: str
    stages: tuple[Stage, ...]
    options: tuple[tuple[str, str], ...] = ()
    schema_version: int = field(default=SCHEMA_VERSION)
