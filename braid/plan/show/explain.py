"""Show a plan: a tree for people, JSON for programs, a Mermaid graph for documents, PQL for the curious."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from braid.core.side import Side
from braid.kernels.join.predicate import And, Compare, IsNull, Not, Or, Predicate, Truth
from braid.plan.logical.expressions import quote
from braid.plan.logical.names import OPERAND
from braid.plan.show import stage_words as words
from braid.plan.show.time_words import order, window
from braid.plan.stages import JoinStage, Plan, Projection, Sink, SlicerStage, Source, Stage


@dataclass
class Node:
    """A line of the tree and what hangs below it."""

    text: str
    children: list[Node] = field(default_factory=list)

    def lines(self, first: str = "", rest: str = "") -> Iterator[str]:
        """The subtree, drawn with box characters."""
        yield f"{first}{self.text}"
        for position, child in enumerate(self.children, start=1):
            last = position == len(self.children)
            yield from child.lines(f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")


def explain_text(plan: Plan) -> str:
    """A tree per output: bounds, keys, buffering per side, and what is evaluated where."""
    writers = {stage.sink.name: stage for stage in plan.stages if stage.sink.internal}
    read = {name for stage in plan.stages for name in _reads(stage)}
    shown: set[str] = set()
    root = Node(_application(plan))
    for stage in plan.stages:
        if not (stage.sink.internal and stage.sink.name in read):
            root.children.append(_stage(stage, writers, shown))
    return "\n".join(root.lines()) + "\n"


def explain_mermaid(plan: Plan) -> str:
    """A flowchart of sources, stages and sinks."""
    lines, ids = ["flowchart LR"], dict[str, str]()

    def place(name: str, shape: str) -> str:
        if name not in ids:
            ids[name] = f"c{len(ids)}"
            lines.append(f"  {ids[name]}{shape.format(_mermaid(name))}")
        return ids[name]

    for position, stage in enumerate(plan.stages):
        node = f"s{position}"
        if isinstance(stage, JoinStage):
            bound = window(stage.lower, stage.upper) if stage.series is None else words.distance(stage.within)
            label = f"{words.title(stage)}<br/>{bound}".replace(", match", "<br/>match")
            sources = [("scribe", stage.left), ("scribe", stage.right)]
        else:
            label = f"slicer {stage.name}"
            sources = [(stage.source.kind, stage.source.name)]
        lines.append(f"  {node}[{_mermaid(label)}]")
        sources += [("lookup", lookup.table) for lookup in stage.lookups]
        for kind, name in sources:
            lines.append(f"  {place(f'{kind} {name}', '[({})]')} --> {node}")
        lines.append(f"  {node} --> {place(_place(stage.sink), '[({})]')}")
    return "\n".join(lines) + "\n"


def predicate_text(predicate: Predicate, names: dict[tuple[Side, str], str]) -> str:
    """A residual predicate in SQL, with the expressions behind its columns."""

    def shown(part: Predicate) -> str:
        if isinstance(part, And | Or):
            word = " AND " if isinstance(part, And) else " OR "
            return word.join(f"({shown(p)})" if isinstance(p, And | Or) else shown(p) for p in part.parts)
        if isinstance(part, Not):
            return f"NOT ({shown(part.part)})"
        operands = [names.get((ref.side, ref.name), ref.name) for ref in part.columns()]
        if isinstance(part, Compare):
            return f" {part.op} ".join(operands)
        return f"{operands[0]} IS NULL" if isinstance(part, IsNull) else operands[0]

    assert isinstance(predicate, And | Or | Not | Compare | IsNull | Truth)
    return shown(predicate)


def _reads(stage: Stage) -> tuple[str, ...]:
    return (stage.left, stage.right) if isinstance(stage, JoinStage) else (stage.source.name,)


def _application(plan: Plan) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in plan.options)
    return f"application {plan.application}" + (f" with {options}" if options else "")


def _stage(stage: Stage, writers: dict[str, Stage], shown: set[str]) -> Node:
    shown.add(stage.name)
    if isinstance(stage, JoinStage):
        return _join(stage, writers, shown)
    node = Node(f"slicer {stage.name} -> {_place(stage.sink)}")
    node.children += _lookups(stage)
    node.children += _filter("keep rows with", stage.filter)
    if stage.sink.shard_by:
        node.children.append(Node(f"shard by {stage.sink.shard_by}"))
    node.children += _columns("evaluate", stage.columns)
    node.children.append(_input(stage.source, writers, shown))
    return node


def _join(stage: JoinStage, writers: dict[str, Stage], shown: set[str]) -> Node:
    slicers = {Side.LEFT: writers[stage.left], Side.RIGHT: writers[stage.right]}
    title = f"table {stage.table}" if stage.table else f"view {stage.sink.name}"
    node = Node(f"{title} -> {_place(stage.sink)}")
    post = Node("post-join slicer")
    post.children += _lookups(stage)
    post.children += _filter("keep rows with", stage.filter)
    post.children += _columns("evaluate after the join", stage.columns)
    if stage.watermarks:
        post.children.append(Node("watermarks", [Node(text) for text in words.watermarks(stage)]))
    join = Node(words.title(stage))
    join.children.append(Node(words.matching(stage)))
    join.children.append(Node(f"on: {_keys(slicers) or 'no key, time only'}"))
    join.children += [Node(text) for text in (words.sharding(stage), words.unmatched(stage)) if text]
    if stage.residual is not None:
        join.children.append(Node(f"and: {predicate_text(stage.residual, _operands(slicers))}"))
    for side in Side:
        slicer = slicers[side]
        assert isinstance(slicer, SlicerStage)
        join.children.append(_slicer(side, slicer, words.buffering(stage, side), writers, shown))
    post.children.append(join)
    node.children.append(post)
    return node


def _slicer(side: Side, stage: SlicerStage, wait: str, writers: dict[str, Stage], shown: set[str]) -> Node:
    join_input = stage.join_input
    assert join_input is not None
    node = Node(f"{side.value} slicer -> {stage.sink.name}, buffered {wait}")
    node.children += _lookups(stage)
    node.children += _filter("keep rows with", stage.filter)
    node.children.append(Node(f"event time: {join_input.time.sql}"))
    keys = ", ".join(f"{c.sql} {c.type}" for c in join_input.keys)
    node.children.append(Node(f"key: {keys or 'none'}"))
    if join_input.live is not None:
        node.children.append(Node(f"matches only if: {join_input.live}"))
    payload = [c for c in stage.columns if not c.name.startswith(OPERAND)]
    node.children += _columns("evaluate before the join", payload)
    operands = [c for c in stage.columns if c.name.startswith(OPERAND)]
    if operands:
        node.children.append(Node("operands: " + ", ".join(f"{c.name} = {c.sql}" for c in operands)))
    node.children.append(_input(stage.source, writers, shown))
    return node


def _input(source: Source, writers: dict[str, Stage], shown: set[str]) -> Node:
    """A source, or the stage behind it when that has not been shown yet."""
    if source.internal and source.name in writers:
        stage = writers[source.name]
        if stage.name not in shown:
            return _stage(stage, writers, shown)
        return Node(f"read {source.name}, shown above")
    columns = ", ".join(f"{c.name} {c.type}" for c in source.columns)
    declared = "" if source.disorder is None else f", {order(source.disorder)}"
    time = f", time {source.time} in {source.time_unit}{declared}" if source.time else ""
    return Node(f"read {source.kind} {source.name} ({columns}){time}")


def _lookups(stage: Stage) -> Iterable[Node]:
    return [Node(_readable(words.lookup(lookup))) for lookup in stage.lookups]


def _filter(start: str, sql: str | None) -> Iterable[Node]:
    return [] if sql is None else [Node(f"{start} {_readable(sql)}")]


_RAW = re.compile(r"in_(left|right|previous|next)__(\w+)")


def _readable(sql: str) -> str:
    """Columns that the planner carries through a join, written as `left.x`, `right.x` or `previous.x`."""
    return _RAW.sub(r"\1.\2", sql)


def _columns(start: str, columns: Sequence[Projection]) -> Iterable[Node]:
    """Expressions in full; columns that are only passed on, in one line."""
    computed, passed = [], []
    for c in columns:
        plain = _RAW.sub(r"\2", c.name)
        if c.sql in (quote(c.name), quote(plain)):
            passed.append(plain)
        else:
            computed.append(f"{_readable(c.name)} = {_readable(c.sql)}")
    if computed:
        yield Node(f"{start}: {', '.join(computed)}")
    if passed:
        yield Node(f"pass on: {', '.join(passed)}")


def _keys(slicers: dict[Side, Stage]) -> str:
    sides = []
    for side in Side:
        stage = slicers[side]
        assert isinstance(stage, SlicerStage)
        assert stage.join_input is not None
        sides.append(stage.join_input.keys)
    return " and ".join(f"{left.sql} = {right.sql}" for left, right in zip(*sides, strict=True))


def _operands(slicers: dict[Side, Stage]) -> dict[tuple[Side, str], str]:
    return {
        (side, c.name): f"{side.value}.({c.sql})" for side, stage in slicers.items() for c in stage.columns
    }


def _place(sink: Sink) -> str:
    return f"{sink.kind} {sink.name}".strip()


def _mermaid(text: str) -> str:
    return json.dumps(text.replace('"', "'"), ensure_ascii=False)
