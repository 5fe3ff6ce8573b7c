"""A join in the tree that explain shows, between its post-join slicer and its two slicers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from braid.core.side import Side
from braid.plan.kinds import join_words as words
from braid.plan.stages.tree import Node

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage
    from braid.plan.kinds.slicer import SlicerStage
    from braid.plan.show.outline import Outline


def join_tree(stage: JoinStage, outline: Outline) -> Node:
    """What is stored, what is evaluated after the join, the join, and its inputs."""
    slicers = {side: stage.slicer(outline.plan, side) for side in Side}
    title = f"table {stage.table}" if stage.table else f"view {stage.sink.name}"
    node = Node(f"{title} -> {stage.sink.place}")
    post = Node("post-join slicer")
    post.children += outline.lookups(stage)
    post.children += outline.filter("keep rows with", stage.filter)
    post.children += outline.columns("evaluate after the join", stage.columns)
    if stage.watermarks:
        post.children.append(Node("watermarks", [Node(text) for text in words.watermarks(stage)]))
    join = Node(words.title(stage))
    join.children.append(Node(words.matching(stage)))
    join.children.append(Node(f"on: {_keys(slicers) or 'no key, time only'}"))
    join.children += [Node(text) for text in (words.sharding(stage), words.unmatched(stage)) if text]
    if stage.residual is not None:
        join.children.append(Node(f"and: {words.predicate_text(stage.residual, _operands(slicers))}"))
    for side, slicer in slicers.items():
        join.children.append(slicer.input_tree(side, words.buffering(stage, side), outline))
    post.children.append(join)
    node.children.append(post)
    return node


def _keys(slicers: Mapping[Side, SlicerStage]) -> str:
    sides = [slicers[side].keys for side in Side]
    return " and ".join(f"{left.sql} = {right.sql}" for left, right in zip(*sides, strict=True))


def _operands(slicers: Mapping[Side, SlicerStage]) -> dict[tuple[Side, str], str]:
    return {
        (side, c.name): f"{side.value}.({c.sql})" for side, stage in slicers.items() for c in stage.columns
    }
