"""Operators over one input that a program calls in FROM, each followed by a slicer in the same query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from braid.core.columns import TIME
from braid.core.config import AppConfig
from braid.core.json_values import Json
from braid.kernels.operator import INPUT, OperatorSpec
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.names import quote
from braid.plan.physical.operation import Facts
from braid.plan.physical.stepping import Stepping, stepping
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
from braid.plan.time_words import duration
from braid.plan.update.change import Change
from braid.plan.update.rows import row_changes

if TYPE_CHECKING:
    from braid.plan.show.outline import Outline
    from braid.plan.update.index import PlanIndex


@dataclass(frozen=True, kw_only=True)
class OperatorStage(Stage):
    """A stateful operator over one input, by key and event time, then a slicer of what it emits.

    A subclass says what it does: its `kind`, its kernel, how long it keeps rows, and its words.

    Parameters
    ----------
    input
        The category that its slicer writes.
    keys
        How many keys rows are put together by.
    lengths
        Its arguments by name, in microseconds.
    output
        Columns that leave the kernel.
    columns, filter, lookups
        The slicer after it: Spark SQL over the columns of `output`.
    table
        The table that is stored; None when it writes a category of the application.
    watermarks
        Event times in what it writes to a category of the application.
    """

    stateful: ClassVar[bool] = True
    adjustable: ClassVar[bool] = False
    """Whether its state is of use to one with other arguments."""

    input: str
    keys: int
    lengths: tuple[tuple[str, int], ...]
    output: tuple[str, ...]
    table: str | None = None
    watermarks: tuple[TimeColumn, ...] = ()

    @abstractmethod
    def operator(self) -> OperatorSpec:
        """What the kernel does."""

    @abstractmethod
    def keeps(self) -> int:
        """For how long, by event time, it keeps a row."""

    def length(self, name: str) -> int:
        """An argument."""
        return dict(self.lengths)[name]

    def reads(self) -> dict[str, str]:
        """What its slicer writes."""
        return {INPUT: self.input}

    def slicer(self, plan: Plan) -> SlicerStage:
        """The slicer that writes its input."""
        found = plan.writer(self.input)
        assert isinstance(found, SlicerStage)
        return found

    def to_json(self) -> dict[str, Json]:
        """The stage as JSON values."""
        return {
            "name": self.name,
            "input": self.input,
            "keys": self.keys,
            "lengths": dict(self.lengths),
            "output": list(self.output),
            "filter": self.filter,
            "columns": [projection_json(c) for c in self.columns],
            "table": self.table,
            "sink": sink_json(self.sink),
            "lookups": [lookup_json(lookup) for lookup in self.lookups],
            "watermarks": [time_column_json(time) for time in self.watermarks],
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        """Read back what `to_json` gave."""
        return cls(
            name=fields.text("name"),
            input=fields.text("input"),
            keys=fields.integer("keys"),
            lengths=fields.integers("lengths"),
            output=fields.texts("output"),
            filter=fields.optional("filter"),
            columns=tuple(read_projection(item) for item in fields.items("columns")),
            table=fields.optional("table"),
            sink=read_sink(fields.get("sink")),
            lookups=read_lookups(fields),
            watermarks=tuple(read_time_column(item) for item in fields.items("watermarks")),
        )

    def operation(self, plan: Plan, options: AppConfig, facts: Facts) -> Stepping:
        """Shards, pacing, and who stores the results."""
        return stepping(plan, self, options, facts, self.operator(), times=self.watermarks)

    def with_event_times(self, known: Mapping[str, EventTimes], refuse: Refuse) -> tuple[Stage, EventTimes]:
        """What it emits is in order of its event time; of other times nothing is known."""
        if not self.sink.internal:
            return self, EventTimes()
        same = {quote(name) for name in known[self.input].joined}
        names = tuple(c.name for c in self.columns if c.sql in same)
        watermarks = tuple(TimeColumn(name, INPUT, TIME) for name in names)
        sink = replace(self.sink, time_columns=names)
        lags = {(a, b): 0 for a in names for b in names if a != b}
        return replace(self, sink=sink, watermarks=watermarks), EventTimes(names, lags, writer=self.name)

    # -- words ------------------------------------------------------------------------------------

    def summary(self) -> str:
        """Its kind and arguments."""
        lengths = ", ".join(f"{name} {duration(micros)}" for name, micros in self.lengths)
        return f"{self.kind} {lengths}".strip()

    def shape(self) -> str:
        """Its arguments."""
        return self.summary()

    def tree(self, outline: Outline) -> Node:
        """The operator between the slicer after it and the one before it."""
        node = outline.plain(self)
        operator = Node(self.summary())
        operator.children.append(self.slicer(outline.plan).input_tree(INPUT, duration(self.keeps()), outline))
        node.children.append(operator)
        return node

    # -- updates ----------------------------------------------------------------------------------

    def changes(self, before: PlanIndex, after: PlanIndex) -> Iterator[Change]:
        """Every change of what it does, of its input, and of a view that it writes."""
        old = before.operators[self.name]
        assert isinstance(old, OperatorStage)
        subject, back = f"{self.kind} {self.name}", self.keeps() + after.config.slack
        if old.shape() != self.shape():
            kind = "stage.adjusted" if self.adjustable else "stage.changed"
            yield Change(kind, subject, f"{old.shape()} -> {self.shape()}", back)
        was, now = old.slicer(before.plan), self.slicer(after.plan)
        if was.keys != now.keys:
            keys = (", ".join(key.sql for key in slicer.keys) for slicer in (was, now))
            yield Change("stage.keys", subject, " -> ".join(keys), back)
        sources = before.source(was.source), after.source(now.source)
        yield from now.input_changes(was, f"input of {subject}", sources, back)
        if old.sink.internal and self.sink.internal:
            yield from row_changes(f"view {after.local(self.sink.name)}", old, self)
