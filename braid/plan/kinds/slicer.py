"""Slicers: a source to rows, or to the sharded input of a join."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from braid.core.columns import TIME
from braid.core.config import AppConfig
from braid.core.connectors import SourceKind
from braid.core.json_values import Json
from braid.plan.names import OPERAND, quote
from braid.plan.physical.operation import Facts
from braid.plan.physical.slicing import Slicing, listed, slicing
from braid.plan.stages.base import Plan, Projection, Source, Stage
from braid.plan.stages.event_times import EventTimes, Refuse
from braid.plan.stages.fields import (
    Fields,
    lookup_json,
    projection_json,
    read_lookups,
    read_projection,
    read_sink,
    read_source,
    sink_json,
    source_json,
    write_pairs,
)
from braid.plan.stages.tree import Node
from braid.plan.update.change import Change
from braid.plan.update.rows import column_changes, lookup_changes, source_changes

if TYPE_CHECKING:
    from braid.plan.show.outline import Outline
    from braid.plan.update.index import PlanIndex


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


@dataclass(frozen=True, kw_only=True)
class SlicerStage(Stage):
    """A stateless query: read, filter, project, and write to a sink or as sharded blocks for a join.

    Parameters
    ----------
    join_input
        What it adds for the join that reads its blocks.
    watermarks
        Columns written (`__time` among them) that carry the watermark of a column of the source, with it.
    """

    kind: ClassVar[str] = "slicer"

    source: Source
    join_input: JoinInput | None = None
    watermarks: tuple[tuple[str, str], ...] = ()

    def reads(self) -> dict[str, str]:
        """Its source, if another stage writes it."""
        return {"source": self.source.name} if self.source.internal else {}

    def categories(self) -> dict[str, tuple[str, str | None]]:
        """Its source, if that is one."""
        found = self.source.kind is SourceKind.SCRIBE
        return {"source": (self.source.name, self.source.time)} if found else {}

    @property
    def keys(self) -> tuple[Projection, ...]:
        """Keys of the join that it slices for."""
        return () if self.join_input is None else self.join_input.keys

    def to_json(self) -> dict[str, Json]:
        """The stage as JSON values."""
        join = self.join_input
        return {
            "name": self.name,
            "source": source_json(self.source),
            "filter": self.filter,
            "columns": [projection_json(c) for c in self.columns],
            "join_input": None
            if join is None
            else {
                "keys": [projection_json(c) for c in join.keys],
                "time": projection_json(join.time),
                "live": join.live,
            },
            "sink": sink_json(self.sink),
            "lookups": [lookup_json(lookup) for lookup in self.lookups],
            "watermarks": write_pairs(self.watermarks),
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        """Read back what `to_json` gave."""
        return cls(
            name=fields.text("name"),
            source=read_source(fields.get("source")),
            columns=tuple(read_projection(item) for item in fields.items("columns")),
            sink=read_sink(fields.get("sink")),
            filter=fields.optional("filter"),
            join_input=_read_join_input(fields.get("join_input")),
            lookups=read_lookups(fields),
            watermarks=fields.pairs("watermarks") if fields.has("watermarks") else (),
        )

    @property
    def table(self) -> str | None:
        """What it stores is a table, unless it is the input of a join."""
        return self.name if self.join_input is None else None

    def operation(self, plan: Plan, options: AppConfig, facts: Facts) -> Slicing:
        """In Catalyst, or on whole files."""
        before = itertools.takewhile(lambda other: other.name != self.name, plan.stages)
        lists = listed(self, (other for other in before if isinstance(other, SlicerStage)))
        return replace(slicing(self, facts.expressible), lists=lists)

    @property
    def hashed(self) -> bool:
        """The input of a join is, by its keys."""
        return self.join_input is not None or super().hashed

    @property
    def disorder(self) -> int | None:
        """As declared of its source."""
        return self.source.disorder

    @property
    def propagates(self) -> bool:
        """If its source is written by an operator, and sliced by an event time of it."""
        return TIME in dict(self.watermarks)

    def times(self) -> tuple[str, ...]:
        """Of the input of a join, the time joined by."""
        return super().times() if self.join_input is None else (TIME,)

    def with_event_times(self, known: Mapping[str, EventTimes], refuse: Refuse) -> tuple[Stage, EventTimes]:
        """Event times in a join's input; `__time` is one, and may be there again under its own name."""
        if self.join_input is None:
            return self, EventTimes()
        source, time = known.get(self.source.name, EventTimes()), self.join_input.time.sql
        for name in source.endless:
            if quote(name) == time:
                refuse(self.name, name, source.writer)
        origin = {quote(name): name for name in source.names}
        nodes = {TIME: origin.get(time, TIME)}
        for column in self.columns:
            if column.sql in origin:
                nodes[column.name] = origin[column.sql]
            elif column.sql == time:
                nodes[column.name] = TIME
        lags = {(a, b): source.lag(nodes[a], nodes[b]) for a in nodes for b in nodes if a != b}
        watermarks = tuple((name, known_) for name, known_ in nodes.items() if known_ != TIME)
        joined = frozenset(name for name in nodes if nodes[name] == nodes[TIME])
        return replace(self, watermarks=watermarks), EventTimes(tuple(nodes), lags, joined=joined)

    # -- words ------------------------------------------------------------------------------------

    def sources(self) -> list[tuple[str, str]]:
        """Its source, whoever writes it."""
        return [(self.source.kind.value, self.source.name)]

    def tree(self, outline: Outline) -> Node:
        """What it evaluates, and its source."""
        node = outline.plain(self)
        node.children.append(outline.source(self.source))
        return node

    def input_tree(self, name: str, wait: str, outline: Outline) -> Node:
        """The slicer as an input, of that name, of what keeps its rows for `wait`."""
        join_input = self.join_input
        assert join_input is not None
        node = Node(f"{name} slicer -> {self.sink.name}, buffered {wait}")
        node.children += outline.lookups(self)
        node.children += outline.filter("keep rows with", self.filter)
        node.children.append(Node(f"event time: {join_input.time.sql}"))
        keys = ", ".join(f"{c.sql} {c.type}" for c in join_input.keys)
        node.children.append(Node(f"key: {keys or 'none'}"))
        if join_input.live is not None:
            node.children.append(Node(f"matches only if: {join_input.live}"))
        payload = [c for c in self.columns if not c.name.startswith(OPERAND)]
        node.children += outline.columns("evaluate before the join", payload)
        operands = [c for c in self.columns if c.name.startswith(OPERAND)]
        if operands:
            node.children.append(Node("operands: " + ", ".join(f"{c.name} = {c.sql}" for c in operands)))
        node.children.append(outline.source(self.source))
        return node

    # -- updates ----------------------------------------------------------------------------------

    def fed_by(self, index: PlanIndex) -> str:
        """Its source."""
        kind, name, _ = index.source(self.source)
        return f"{kind} {name}"

    def source_changes(self, old: Stage, subject: str) -> Iterator[Change]:
        """Changes in how the source is read."""
        if isinstance(old, SlicerStage):
            yield from source_changes(subject, old.source, self.source, None, "table.time_unit")

    def can_use(self, old: SlicerStage) -> bool:
        """Whether blocks that another version of it has written are as good as its own to what reads them."""
        was, now = old.join_input, self.join_input
        assert was is not None
        assert now is not None
        known = {(column.name, column.type) for column in old.columns}
        return (
            was.keys == now.keys
            and was.time.sql == now.time.sql
            and old.source.time_unit == self.source.time_unit
            and (now.live is None or was.live is not None)
            and all((column.name, column.type) in known for column in self.columns)
        )

    def input_changes(
        self,
        old: SlicerStage,
        subject: str,
        sources: tuple[tuple[str, ...], tuple[str, ...]],
        back: int | None,
    ) -> Iterator[Change]:
        """Changes of a join's input, given the old and the new source by names that can be compared."""
        assert old.join_input is not None
        assert self.join_input is not None
        was, now = sources
        if was != now:
            yield Change("join.input", subject, f"{' '.join(was[:2])} -> {' '.join(now[:2])}")
        yield from source_changes(subject, old.source, self.source, back)
        if old.join_input.time.sql != self.join_input.time.sql:
            detail = f"{old.join_input.time.sql} -> {self.join_input.time.sql}"
            yield Change("join.time", subject, detail, back)
        live = (old.join_input.live, self.join_input.live)
        if live[0] != live[1]:
            kind = "added" if live[0] is None else "removed" if live[1] is None else "changed"
            replay = back if kind == "added" else None
            yield Change(f"join.live_{kind}", subject, f"{live[0] or 'all'} -> {live[1] or 'all'}", replay)
        yield from lookup_changes(subject, old, self)
        if old.filter != self.filter:
            yield Change("filter.changed", subject, f"{old.filter or 'all'} -> {self.filter or 'all'}")
        for change in column_changes(subject, old.columns, self.columns, "input.column_type"):
            yield replace(change, replay=back) if change.kind == "input.column_type" else change


def _read_join_input(value: Json) -> JoinInput | None:
    if value is None:
        return None
    fields = Fields.of(value, "join input")
    return JoinInput(
        keys=tuple(read_projection(item) for item in fields.items("keys")),
        time=read_projection(fields.get("time")),
        live=fields.optional("live"),
    )
