"""What changes in a join, and what that does to the rows that it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from braid.core.side import Side
from braid.core.times import FOREVER
from braid.plan.kinds import join_words as words
from braid.plan.stages.base import Plan
from braid.plan.time_words import duration, left_buffering, right_buffering, window
from braid.plan.update.change import Change
from braid.plan.update.rows import row_changes

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage
    from braid.plan.update.index import PlanIndex


def join_changes(old: JoinStage, new: JoinStage, before: PlanIndex, after: PlanIndex) -> Iterator[Change]:
    """Every change of a join, of its inputs, and of a view that it writes."""
    subject = f"join {new.name}"
    endless = max(new.upper, -new.lower) >= FOREVER
    window_ = left_buffering(new.upper) + right_buffering(new.lower)
    back = None if endless else window_ + after.config.slack
    yield from _pairing(old, new, back)
    for what in ("type", "match"):
        first, second = getattr(old, what), getattr(new, what)
        if first != second:
            yield Change(f"join.{what}", subject, f"{first.value} -> {second.value}", back)
    old_keys, new_keys = _keys(old, before.plan), _keys(new, after.plan)
    if old_keys != new_keys:
        yield Change("join.keys", subject, f"{_list(old_keys)} -> {_list(new_keys)}", back)
    windows = old.series is None and new.series is None
    if windows and (old.lower, old.upper) != (new.lower, new.upper):
        yield Change(_window_change(old, new), subject, f"{_window(old)} -> {_window(new)}")
    for side in Side:
        was, now = old.slicer(before.plan, side), new.slicer(after.plan, side)
        sources = before.source(was.source), after.source(now.source)
        yield from now.input_changes(was, f"{side.value} input of join {new.name}", sources, back)
    yield from _residual(old, new, before.plan, after.plan, back)
    if old.type is not new.type:
        yield from _evaluated(old, new, before.plan, after.plan, back)
    yield from _after(before, after, old, new)


def _pairing(old: JoinStage, new: JoinStage, back: int | None) -> Iterator[Change]:
    """Changes of how two rows become a pair, and of when rows without a partner come out."""
    subject = f"join {new.name}"
    if words.pairing(old) != words.pairing(new):
        yield Change("join.kind", subject, f"{words.pairing(old)} -> {words.pairing(new)}", back)
    elif old.within != new.within:
        narrower = new.within is not None and (old.within is None or new.within < old.within)
        kind = "join.within_narrowed" if narrower else "join.within_widened"
        detail = f"{words.distance(old.within)} -> {words.distance(new.within)}"
        yield Change(kind, subject, detail, None if narrower else back)
    if old.consume != new.consume:
        once = {False: "right rows match any number of times", True: "right rows match once"}
        yield Change("join.consume", subject, f"{once[old.consume]} -> {once[new.consume]}", back)
    if old.pad_after != new.pad_after:
        waits = ["on close" if w is None else f"after {duration(w)}" for w in (old.pad_after, new.pad_after)]
        yield Change("join.unmatched", subject, " -> ".join(waits))


def _residual(
    old: JoinStage, new: JoinStage, before: Plan, after: Plan, back: int | None
) -> Iterator[Change]:
    there = {(side, c.name, c.type) for side in Side for c in old.slicer(before, side).columns}
    needed = [] if new.residual is None else list(new.residual.columns())
    columns = [
        (ref.side, c) for ref in needed for c in new.slicer(after, ref.side).columns if c.name == ref.name
    ]
    shown = {c.sql for side, c in columns if (side, c.name, c.type) not in there}
    if not shown:
        if old.residual != new.residual:
            yield Change("join.residual", f"join {new.name}", "the residual predicate of ON is another")
        return
    yield Change("join.residual_operands", f"join {new.name}", f"it needs {', '.join(sorted(shown))}", back)


def _evaluated(
    old: JoinStage, new: JoinStage, before: Plan, after: Plan, back: int | None
) -> Iterator[Change]:
    """Columns that were evaluated before the join, and are after it now that it pads their side."""
    for side in filter(new.type.pads, (Side.RIGHT, Side.LEFT)):
        there = {c.name for c in old.slicer(before, side.other).columns}
        lacking = [c.sql for c in new.slicer(after, side.other).columns if c.name not in there]
        if lacking and not old.type.pads(side):
            detail = f"it needs {', '.join(lacking)}, of which older blocks hold results only"
            yield Change("join.type_operands", f"{side.other} input of join {new.name}", detail, back)


def _after(before: PlanIndex, after: PlanIndex, old: JoinStage, new: JoinStage) -> Iterator[Change]:
    """What follows the join when both write a category of the application; tables have their own turn."""
    if not (old.sink.internal and new.sink.internal):
        return
    subject = f"view {after.local(new.sink.name)}"
    if before.local(old.sink.name) == after.local(new.sink.name):
        yield from row_changes(subject, old, new)


def _window_change(old: JoinStage, new: JoinStage) -> str:
    if new.lower <= old.lower and new.upper >= old.upper:
        return "join.window_widened"
    if new.lower >= old.lower and new.upper <= old.upper:
        return "join.window_narrowed"
    return "join.window_moved"


def _keys(stage: JoinStage, plan: Plan) -> list[str]:
    sides = [stage.slicer(plan, side).keys for side in Side]
    return [f"{left.sql} = {right.sql} ({left.type})" for left, right in zip(*sides, strict=True)]


def _list(items: list[str]) -> str:
    return " and ".join(items) or "no key"


def _window(stage: JoinStage) -> str:
    return window(stage.lower, stage.upper)
