"""Joins of two categories, each followed by a post-join slicer in the same query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from braid.core.config import AppConfig
from braid.core.json_values import Json
from braid.core.side import Side
from braid.kernels.join.predicate import Predicate, predicate_from_json
from braid.kernels.join.spec import JoinType, MatchMode, Neighbour, OutputColumn, SeriesMode
from braid.plan.kinds import join_words as words
from braid.plan.kinds.join_changes import join_changes
from braid.plan.kinds.join_names import adopting
from braid.plan.kinds.join_times import joined_times
from braid.plan.kinds.join_tree import join_tree
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.joining import joining
from braid.plan.physical.operation import Facts
from braid.plan.physical.stepping import Stepping
from braid.plan.stages.base import Plan, Stage
from braid.plan.stages.event_times import EventTimes, Refuse, TimeColumn
from braid.plan.stages.fields import (
    Fields,
    lookup_json,
    projection_json,
    read_lookups,
    read_projection,
    read_sink,
    read_time_column,
    sink_json,
    time_column_json,
)
from braid.plan.stages.tree import Node
from braid.plan.time_words import window
from braid.plan.update.change import Change

if TYPE_CHECKING:
    from braid.plan.show.outline import Outline
    from braid.plan.update.index import PlanIndex


@dataclass(frozen=True, kw_only=True)
class JoinStage(Stage):
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
    broadcast
        Of a join without keys: the side that every shard reads whole, while the other one is split.
    single_shard
        Whether a join without keys has to see all rows in one place.
    watermarks
        Event times in what it writes to a category of the application.
    """

    kind: ClassVar[str] = "join"
    stateful: ClassVar[bool] = True
    change_kind: ClassVar[str] = "join"

    left: str
    right: str
    type: JoinType
    match: MatchMode
    lower: int
    upper: int
    keys: int
    output: tuple[OutputColumn, ...]
    residual: Predicate | None = None
    table: str | None = None
    series: SeriesMode | None = None
    within: int | None = None
    inclusive: bool = True
    consume: bool = False
    pad_after: int | None = None
    broadcast: Side | None = None
    single_shard: bool = False
    watermarks: tuple[TimeColumn, ...] = ()

    def reads(self) -> dict[str, str]:
        """What the two slicers write."""
        return {Side.LEFT.value: self.left, Side.RIGHT.value: self.right}

    def slicer(self, plan: Plan, side: Side) -> SlicerStage:
        """The slicer that writes one of its inputs."""
        found = plan.writer(self.reads()[side.value])
        assert isinstance(found, SlicerStage)
        return found

    def to_json(self) -> dict[str, Json]:
        """The stage as JSON values."""
        return {
            "name": self.name,
            "left": self.left,
            "right": self.right,
            "type": self.type.value,
            "match": self.match.value,
            "lower": self.lower,
            "upper": self.upper,
            "keys": self.keys,
            "residual": None if self.residual is None else self.residual.to_json(),
            "output": [_output(c) for c in self.output],
            "filter": self.filter,
            "columns": [projection_json(c) for c in self.columns],
            "table": self.table,
            "sink": sink_json(self.sink),
            "series": None if self.series is None else self.series.value,
            "within": self.within,
            "inclusive": self.inclusive,
            "consume": self.consume,
            "pad_after": self.pad_after,
            "lookups": [lookup_json(lookup) for lookup in self.lookups],
            "broadcast": None if self.broadcast is None else self.broadcast.value,
            "single_shard": self.single_shard,
            "watermarks": [time_column_json(time) for time in self.watermarks],
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        """Read back what `to_json` gave."""
        residual = fields.get("residual")
        return cls(
            name=fields.text("name"),
            left=fields.text("left"),
            right=fields.text("right"),
            type=JoinType(fields.one_of("type", tuple(JoinType))),
            match=MatchMode(fields.one_of("match", tuple(MatchMode))),
            lower=fields.integer("lower"),
            upper=fields.integer("upper"),
            keys=fields.integer("keys"),
            output=tuple(_read_output(item) for item in fields.items("output")),
            columns=tuple(read_projection(item) for item in fields.items("columns")),
            sink=read_sink(fields.get("sink")),
            residual=None if residual is None else predicate_from_json(residual),
            filter=fields.optional("filter"),
            table=fields.optional("table"),
            series=SeriesMode(fields.one_of("series", tuple(SeriesMode))) if fields.has("series") else None,
            within=fields.integer("within") if fields.has("within") else None,
            inclusive=not fields.has("inclusive") or fields.flag("inclusive"),
            consume=fields.has("consume") and fields.flag("consume"),
            pad_after=fields.integer("pad_after") if fields.has("pad_after") else None,
            lookups=read_lookups(fields),
            broadcast=fields.side("broadcast") if fields.has("broadcast") else None,
            single_shard=fields.has("single_shard") and fields.flag("single_shard"),
            watermarks=tuple(read_time_column(item) for item in fields.items("watermarks"))
            if fields.has("watermarks")
            else (),
        )

    def operation(self, plan: Plan, options: AppConfig, facts: Facts) -> Stepping:
        """Shards, pacing, and who stores the results."""
        return joining(plan, self, options, facts)

    def with_event_times(self, known: Mapping[str, EventTimes], refuse: Refuse) -> tuple[Stage, EventTimes]:
        """Event times in what it writes to a category of the application."""
        return joined_times(self, known) if self.sink.internal else (self, EventTimes())

    # -- words ------------------------------------------------------------------------------------

    def title(self) -> str:
        """`left join v, match all`."""
        return words.title(self)

    def label(self) -> str:
        """Title and bounds, in lines."""
        bound = window(self.lower, self.upper) if self.series is None else words.distance(self.within)
        return f"{words.title(self)}<br/>{bound}".replace(", match", "<br/>match")

    def summary(self) -> str:
        """`left join, match all`."""
        return words.summary(self)

    def tree(self, outline: Outline) -> Node:
        """The join between its post-join slicer and its two slicers."""
        return join_tree(self, outline)

    # -- updates ----------------------------------------------------------------------------------

    def shape(self) -> str:
        """Its window, or its kind of pairing."""
        return f"window {window(self.lower, self.upper)}" if self.series is None else words.pairing(self)

    def changes(self, before: PlanIndex, after: PlanIndex) -> Iterator[Change]:
        """Every change of the join, of its inputs, and of a view that it writes."""
        old = before.operators[self.name]
        assert isinstance(old, JoinStage)
        return join_changes(old, self, before, after)

    def adopting(self, plan: Plan, old: Stage, before: Plan) -> dict[str, Stage]:
        """Columns of its inputs keep their names."""
        return adopting(self, plan, old, before) if isinstance(old, JoinStage) else {}


def _output(column: OutputColumn) -> Json:
    neighbour = None if column.neighbour is None else column.neighbour.value
    return {"name": column.name, "side": column.side.value, "column": column.column, "neighbour": neighbour}


def _read_output(value: Json) -> OutputColumn:
    fields = Fields.of(value, "output column")
    neighbour = Neighbour(fields.one_of("neighbour", tuple(Neighbour))) if fields.has("neighbour") else None
    return OutputColumn(fields.text("name"), fields.side("side"), fields.text("column"), neighbour)
