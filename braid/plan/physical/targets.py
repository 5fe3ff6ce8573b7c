"""Where the rows of a query are stored: a category, the folder of a table, or a lookup table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from braid.core.config import AppConfig, parse_duration
from braid.core.errors import ConfigError
from braid.eventtime.arrival import ChunkOrder
from braid.log.layout import check_name
from braid.plan.stages.base import Stage


@dataclass(frozen=True)
class CategoryTarget:
    """A category of the log.

    Parameters
    ----------
    name
        Its name.
    shards
        How many shards its blocks are split into; 1 if its rows have no hash.
    time_columns
        Columns whose times its commits say.
    relayed
        Whether a second query passes the rows on to the sink, which has no commits of its own.
    order
        How the chunks of a commit are put in order.
    """

    name: str
    shards: int
    time_columns: tuple[str, ...]
    relayed: bool = False
    order: ChunkOrder = ChunkOrder.MEDIAN

    @property
    def text(self) -> str:
        """In words."""
        times = ", ".join(self.time_columns) or "none"
        shards = "1 shard" if self.shards == 1 else f"{self.shards} shards"
        relayed = ", relayed to the sink at least once" if self.relayed else ""
        return f"category {self.name}, {shards}, times of chunks: {times}{relayed}"


@dataclass(frozen=True)
class TableTarget:
    """A folder of Parquet files by event date and hour.

    Parameters
    ----------
    name
        Name of the table, below the home's warehouse unless there is a path.
    path
        Its folder, if the program says it.
    time
        The column that it is partitioned by, if it has a time.
    """

    name: str
    path: str | None
    time: str | None

    def folder(self, home: Path) -> Path:
        """Its own path, or one in the warehouse of a home."""
        return (
            Path(self.path).absolute() if self.path else home / "warehouse" / check_name(self.name, "table")
        )

    @property
    def text(self) -> str:
        """In words."""
        place = self.path or f"warehouse/{self.name}"
        return f"Parquet files in {place}, by {f'date and hour of {self.time}' if self.time else 'no time'}"


@dataclass(frozen=True)
class LookupTarget:
    """A lookup table.

    Parameters
    ----------
    name
        Name of the table.
    keys, values
        Its columns.
    time
        The column that says which row of a key is newest; None if it is the last one that came.
    ttl
        How long records live, in microseconds.
    """

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    time: str | None
    ttl: int | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the sink needs of the rows."""
        return tuple(dict.fromkeys((*self.keys, *self.values, *filter(None, (self.time,)))))

    @property
    def text(self) -> str:
        """In words."""
        newest = f"the newest by {self.time}" if self.time else "the last that came"
        return f"lookup table {self.name}, per {', '.join(self.keys)} {newest}"


Target = CategoryTarget | TableTarget | LookupTarget


def target_of(application: str, stage: Stage, options: AppConfig) -> Target:
    """Where a stage's rows are stored."""
    sink = stage.sink
    if sink.kind.connector.keyed:
        ttl = dict(sink.options).get("ttl")
        time = None if ttl is None else parse_duration(ttl)
        return LookupTarget(sink.name, sink.keys, sink.values, _table_time(stage), time)
    if sink.kind.connector.filed:
        return TableTarget(sink.name, dict(sink.options).get("path"), _table_time(stage))
    return CategoryTarget(
        name=category_of(application, stage),
        shards=options.shards if stage.hashed else 1,
        time_columns=stage.times(),
        relayed=sink.kind.connector.relayed,
        order=_order(stage),
    )


def _order(stage: Stage) -> ChunkOrder:
    if stage.disorder is None:
        return ChunkOrder.MEDIAN
    return ChunkOrder.ARRIVAL if stage.categories() else ChunkOrder.BOUNDS


def relay_name(stage: Stage) -> str:
    """Name of the query that relays a stage's rows."""
    return f"{stage.name}.relay"


def category_of(application: str, stage: Stage) -> str:
    """The category that a stage writes: its sink's, or one to relay from."""
    return f"{application}.{relay_name(stage)}" if stage.sink.kind.connector.relayed else stage.sink.name


def _table_time(stage: Stage) -> str | None:
    """The time column that a table names, or the first one it has."""
    sink, times = stage.sink, stage.times()
    named = dict(sink.options).get("time")
    if named is not None and named not in times:
        raise ConfigError(
            f"table {sink.name!r} is partitioned by {named!r}, which is no timestamp of it",
            hint=f"timestamps are: {', '.join(times) or 'none'}",
        )
    return named or next(iter(times), None)
