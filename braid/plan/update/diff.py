"""Compare two plans of an application: what changes, and what that does to a running one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from braid.core.config import AppConfig, parse_options
from braid.core.side import Side
from braid.core.times import FOREVER
from braid.plan.logical.names import OPERAND, category, raw
from braid.plan.show import stage_words as words
from braid.plan.show.time_words import duration, left_buffering, order, right_buffering, window
from braid.plan.stages import JoinStage, Plan, Projection, Sink, SlicerStage, Source, Stage
from braid.plan.update.rules import OPTION_KINDS, UPDATE_RULES, UpdateRule, Verdict

_TYPED_SINKS = ("scribe", "hive")


@dataclass(frozen=True)
class Change:
    """One change.

    Parameters
    ----------
    kind
        A key of `UPDATE_RULES`.
    subject
        What changes, such as `join joined_streams` or `table result`.
    detail
        How, naming the old and the new.
    replay
        For a replay, how far back rows are read again, in microseconds; None is from the start of the source.
    """

    kind: str
    subject: str
    detail: str
    replay: int | None = None

    @property
    def rule(self) -> UpdateRule:
        """The rule on this kind of change."""
        return UPDATE_RULES[self.kind]

    @property
    def verdict(self) -> Verdict:
        """What happens to state and in-flight data."""
        return self.rule.verdict


@dataclass(frozen=True)
class Diff:
    """All changes between two plans."""

    changes: tuple[Change, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all changes."""
        return max((c.verdict for c in self.changes), key=list(Verdict).index, default=Verdict.KEPT)


def diff(old: Plan, new: Plan) -> Diff:
    """Every change from `old` to `new`, by application, join and table."""
    return Diff(tuple(_changes(old, new)))


def _changes(old: Plan, new: Plan) -> Iterator[Change]:
    if old.application != new.application:
        yield Change("application.renamed", "application", f"{old.application} -> {new.application}")
    before, after = _Index(old), _Index(new)
    yield from _options(before.config, after.config)
    for name in [*after.joins, *(name for name in before.joins if name not in after.joins)]:
        if name not in before.joins:
            yield Change("join.added", f"join {name}", _shape(after.joins[name]))
        elif name not in after.joins:
            yield Change("join.removed", f"join {name}", _shape(before.joins[name]))
        else:
            yield from _join(before, after, name)
    for name in [*after.tables, *(name for name in before.tables if name not in after.tables)]:
        if name not in before.tables:
            yield Change("table.added", f"table {name}", _place(after.tables[name].sink))
        elif name not in after.tables:
            yield Change("table.removed", f"table {name}", _place(before.tables[name].sink))
        else:
            yield from _table(name, before, after)


class _Index:
    """A plan by names that do not depend on the application's."""

    def __init__(self, plan: Plan) -> None:
        self.config: AppConfig = parse_options(dict(plan.options))
        self.joins = {s.name: s for s in plan.stages if isinstance(s, JoinStage)}
        self.slicers = {s.name: s for s in plan.stages if isinstance(s, SlicerStage)}
        self.tables: dict[str, Stage] = {}
        for stage in plan.stages:
            if isinstance(stage, JoinStage) and stage.table is not None:
                self.tables[stage.table] = stage
            elif isinstance(stage, SlicerStage) and stage.join_input is None:
                self.tables[stage.name] = stage
        self._prefix = category(plan.application, "")

    def local(self, name: str) -> str:
        """A category's name without the application's."""
        return name.removeprefix(self._prefix)

    def slicer(self, join: str, side: Side) -> SlicerStage:
        """The slicer of one side of a join."""
        return self.slicers[f"{join}.{side.value}"]

    def source(self, source: Source) -> tuple[str, str, str]:
        """What a stage reads, as far as another plan could read the same."""
        name = self.local(source.name) if source.internal else source.name
        return source.kind, name, source.format

    def feeding(self, stage: Stage) -> str:
        """What a table is computed from: a join's own query, or a source."""
        if isinstance(stage, JoinStage):
            return f"join {stage.name}"
        kind, name, _ = self.source(stage.source)
        return f"{kind} {name}"


def _options(old: AppConfig, new: AppConfig) -> Iterator[Change]:
    for name in AppConfig.model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        kind = OPTION_KINDS.get(name, "option.changed")
        if name == "retention" and after < before:
            kind = "retention.shortened"
        yield Change(kind, f"option {name}", f"{before} -> {after}")


def _join(before: _Index, after: _Index, name: str) -> Iterator[Change]:
    old, new = before.joins[name], after.joins[name]
    subject = f"join {name}"
    endless = max(new.upper, -new.lower) >= FOREVER
    window_ = left_buffering(new.upper) + right_buffering(new.lower)
    back = None if endless else window_ + after.config.slack
    yield from _pairing(old, new, back)
    for what in ("type", "match"):
        was, now = getattr(old, what), getattr(new, what)
        if was != now:
            yield Change(f"join.{what}", subject, f"{was.value} -> {now.value}", back)
    old_keys, new_keys = (_keys(index, name) for index in (before, after))
    if old_keys != new_keys:
        yield Change("join.keys", subject, f"{_list(old_keys)} -> {_list(new_keys)}", back)
    windows = old.series is None and new.series is None
    if windows and (old.lower, old.upper) != (new.lower, new.upper):
        yield Change(_window_change(old, new), subject, f"{_window(old)} -> {_window(new)}")
    for side in Side:
        yield from _side(before, after, name, side, back)
    yield from _residual(before, after, name, back)
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


def _side(before: _Index, after: _Index, name: str, side: Side, back: int | None) -> Iterator[Change]:
    old, new = before.slicer(name, side), after.slicer(name, side)
    assert old.join_input is not None
    assert new.join_input is not None
    subject = f"{side.value} input of join {name}"
    was, now = before.source(old.source), after.source(new.source)
    if was != now:
        yield Change("join.input", subject, f"{' '.join(was[:2])} -> {' '.join(now[:2])}")
    yield from _source(subject, old.source, new.source, back)
    if old.join_input.time.sql != new.join_input.time.sql:
        detail = f"{old.join_input.time.sql} -> {new.join_input.time.sql}"
        yield Change("join.time", subject, detail, back)
    live = (old.join_input.live, new.join_input.live)
    if live[0] != live[1]:
        kind = "added" if live[0] is None else "removed" if live[1] is None else "changed"
        replay = back if kind == "added" else None
        yield Change(f"join.live_{kind}", subject, f"{live[0] or 'all'} -> {live[1] or 'all'}", replay)
    yield from _lookups(subject, old, new)
    if old.filter != new.filter:
        yield Change("filter.changed", subject, f"{old.filter or 'all'} -> {new.filter or 'all'}")
    yield from _columns(subject, old.columns, new.columns, typed=True)


def _residual(before: _Index, after: _Index, name: str, back: int | None) -> Iterator[Change]:
    old, new = before.joins[name], after.joins[name]
    if old.residual == new.residual:
        return
    there = {(side, c.name) for side in Side for c in before.slicer(name, side).columns}
    needed = [] if new.residual is None else list(new.residual.columns())
    lacking = [ref for ref in needed if (ref.side, ref.name) not in there]
    if not lacking:
        yield Change("join.residual", f"join {name}", "the residual predicate of ON is another")
        return
    shown = {c.sql for ref in lacking for c in after.slicer(name, ref.side).columns if c.name == ref.name}
    yield Change("join.residual_operands", f"join {name}", f"it needs {', '.join(sorted(shown))}", back)


def _after(before: _Index, after: _Index, old: JoinStage, new: JoinStage) -> Iterator[Change]:
    """What follows the join when both write a category of the application; tables have their own turn."""
    if not (old.sink.internal and new.sink.internal):
        return
    subject = f"view {after.local(new.sink.name)}"
    if before.local(old.sink.name) == after.local(new.sink.name):
        yield from _rows(subject, old, new)


def _table(name: str, before: _Index, after: _Index) -> Iterator[Change]:
    old, new = before.tables[name], after.tables[name]
    subject = f"table {name}"
    was, now = before.feeding(old), after.feeding(new)
    if was != now:
        moved = isinstance(old, JoinStage) or isinstance(new, JoinStage)
        kind = "table.moved" if moved else "input.source"
        yield Change(kind, subject, f"{was} -> {now}")
    elif isinstance(old, SlicerStage) and isinstance(new, SlicerStage):
        yield from _source(subject, old.source, new.source, None)
    if (old.sink.kind, old.sink.name) != (new.sink.kind, new.sink.name):
        yield Change("sink.changed", subject, f"{_place(old.sink)} -> {_place(new.sink)}")
    elif old.sink.keys != new.sink.keys:
        yield Change("sink.keys", subject, f"{', '.join(old.sink.keys)} -> {', '.join(new.sink.keys)}")
    elif _settings(old.sink) != _settings(new.sink):
        yield Change("sink.options", subject, "options, values or SHARD BY")
    yield from _rows(subject, old, new)


def _settings(sink: Sink) -> tuple[object, ...]:
    return sink.options, sink.shard_by, sink.values


def _lookups(subject: str, old: Stage, new: Stage) -> Iterator[Change]:
    if old.lookups != new.lookups:
        before, after = ("; ".join(map(words.lookup, stage.lookups)) or "none" for stage in (old, new))
        yield Change("lookup.changed", subject, f"{before} -> {after}")


def _rows(subject: str, old: Stage, new: Stage) -> Iterator[Change]:
    yield from _lookups(subject, old, new)
    if old.filter != new.filter:
        yield Change("filter.changed", subject, f"{old.filter or 'all'} -> {new.filter or 'all'}")
    same_place = (old.sink.kind, old.sink.name) == (new.sink.kind, new.sink.name)
    typed = same_place and new.sink.kind in _TYPED_SINKS
    yield from _columns(subject, old.columns, new.columns, typed=typed)


def _source(subject: str, old: Source, new: Source, back: int | None) -> Iterator[Change]:
    if old.options != new.options:
        yield Change("input.options", subject, "options of the source")
    if old.time_unit != new.time_unit:
        yield Change("input.time_unit", subject, f"{old.time_unit} -> {new.time_unit}", back)
    if old.disorder != new.disorder:
        yield Change("input.ordered", subject, f"{order(old.disorder)} -> {order(new.disorder)}")


def _columns(
    subject: str, old: tuple[Projection, ...], new: tuple[Projection, ...], *, typed: bool
) -> Iterator[Change]:
    """Changes of columns; operands of residuals, named after their text, are judged with the residual."""
    before = {c.name: c for c in old if not c.name.startswith(OPERAND)}
    after = {c.name: c for c in new if not c.name.startswith(OPERAND)}
    for name in after:
        if name not in before:
            yield Change("column.added", subject, f"{_shown(name)} = {after[name].sql}")
    for name in before:
        if name not in after:
            yield Change("column.dropped", subject, _shown(name))
    common = [name for name in before if name in after]
    for name in common:
        was, now = before[name], after[name]
        if was.type != now.type:
            kind = "column.type" if typed else "column.retyped"
            yield Change(kind, subject, f"{_shown(name)}: {was.type} -> {now.type}")
        elif was.sql != now.sql:
            yield Change("column.changed", subject, f"{_shown(name)}: {was.sql} -> {now.sql}")
    if common != [name for name in after if name in before]:
        yield Change("column.reordered", subject, ", ".join(_shown(name) for name in after))


def _window_change(old: JoinStage, new: JoinStage) -> str:
    if new.lower <= old.lower and new.upper >= old.upper:
        return "join.window_widened"
    if new.lower >= old.lower and new.upper <= old.upper:
        return "join.window_narrowed"
    return "join.window_moved"


def _keys(index: _Index, name: str) -> list[str]:
    sides = []
    for side in Side:
        join_input = index.slicer(name, side).join_input
        assert join_input is not None
        sides.append(join_input.keys)
    return [f"{left.sql} = {right.sql} ({left.type})" for left, right in zip(*sides, strict=True)]


def _list(items: list[str]) -> str:
    return " and ".join(items) or "no key"


def _shape(stage: JoinStage) -> str:
    return f"window {_window(stage)}" if stage.series is None else words.pairing(stage)


def _window(stage: JoinStage) -> str:
    return window(stage.lower, stage.upper)


def _shown(name: str) -> str:
    for side in Side:
        prefix = raw(side, "")
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _place(sink: Sink) -> str:
    return f"{sink.kind} {sink.name}".strip()


def replay_text(change: Change) -> str:
    """How far back a replay reads."""
    return "from the start of the source" if change.replay is None else f"the last {duration(change.replay)}"
