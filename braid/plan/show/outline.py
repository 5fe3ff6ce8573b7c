"""The tree that explain shows: what stages of every kind draw their part with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from braid.plan.names import quote
from braid.plan.stages.base import Plan, Projection, Source, Stage
from braid.plan.stages.tree import Node
from braid.plan.time_words import order

_RAW = re.compile(r"in_(left|right|previous|next)__(\w+)")


class Outline:
    """Draws the stages of one plan, each in full once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._writers = {stage.sink.name: stage for stage in plan.stages if stage.sink.internal}
        self._shown: set[str] = set()

    def stage(self, stage: Stage) -> Node:
        """A stage and what is behind it."""
        self._shown.add(stage.name)
        return stage.tree(self)

    def plain(self, stage: Stage) -> Node:
        """A stage of any kind: what it looks up, keeps and evaluates, and the stages that it reads."""
        node = Node(f"{stage.title()} -> {stage.sink.place}")
        node.children += self.lookups(stage)
        node.children += self.filter("keep rows with", stage.filter)
        if stage.sink.shard_by:
            node.children.append(Node(f"shard by {stage.sink.shard_by}"))
        node.children += self.columns("evaluate", stage.columns)
        return node

    def source(self, source: Source) -> Node:
        """A source, or the stage behind it when that has not been shown yet."""
        if source.internal and source.name in self._writers:
            return self.category(source.name)
        columns = ", ".join(f"{c.name} {c.type}" for c in source.columns)
        declared = "" if source.disorder is None else f", {order(source.disorder)}"
        time = f", time {source.time} in {source.time_unit}{declared}" if source.time else ""
        return Node(f"read {source.kind} {source.name} ({columns}){time}")

    def category(self, name: str) -> Node:
        """A category of the application: the stage behind it when that has not been shown yet."""
        stage = self._writers[name]
        return Node(f"read {name}, shown above") if stage.name in self._shown else self.stage(stage)

    def lookups(self, stage: Stage) -> list[Node]:
        """What a stage looks up."""
        return [Node(readable(lookup.text)) for lookup in stage.lookups]

    def filter(self, start: str, sql: str | None) -> list[Node]:
        """A condition on rows."""
        return [] if sql is None else [Node(f"{start} {readable(sql)}")]

    def columns(self, start: str, columns: Sequence[Projection]) -> Iterator[Node]:
        """Expressions in full; columns that are only passed on, in one line."""
        computed, passed = [], []
        for c in columns:
            plain = _RAW.sub(r"\2", c.name)
            if c.sql in (quote(c.name), quote(plain)):
                passed.append(plain)
            else:
                computed.append(f"{readable(c.name)} = {readable(c.sql)}")
        if computed:
            yield Node(f"{start}: {', '.join(computed)}")
        if passed:
            yield Node(f"pass on: {', '.join(passed)}")


def readable(sql: str) -> str:
    """Columns that the planner carries through a join, written as `left.x`, `right.x` or `previous.x`."""
    return _RAW.sub(r"\1.\2", sql)
