"""Compare two plans of an application: what changes, and what that does to a running one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from braid.core.config import AppConfig, is_duration
from braid.plan.stages.base import Plan, Stage
from braid.plan.time_words import duration
from braid.plan.update.change import Change
from braid.plan.update.index import PlanIndex
from braid.plan.update.queries import QueryChange, query_changes
from braid.plan.update.rows import row_changes, sink_changes
from braid.plan.update.rules import OPTION_KINDS, Verdict, Way


@dataclass(frozen=True)
class Diff:
    """All changes between two plans, and the queries that will run otherwise for them."""

    changes: tuple[Change, ...]
    queries: tuple[QueryChange, ...]
    after: Plan
    """The new plan, with names of columns as rows in flight have them."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all changes."""
        return max((c.verdict for c in self.changes), key=list(Verdict).index, default=Verdict.KEPT)

    @property
    def ways(self) -> dict[str, Way]:
        """What is to be done with stages, by their names, before they go on; nothing with the others."""
        found: dict[str, Way] = {}
        for change in self.changes:
            if change.stage is not None and change.rule.way is not Way.GO_ON:
                found[change.stage] = max(found.get(change.stage, Way.GO_ON), change.rule.way)
        return found


def diff(old: Plan, new: Plan) -> Diff:
    """Every change from `old` to `new`, by application, operator and table."""
    new = adopted(old, new)
    return Diff(tuple(_changes(old, new)), tuple(query_changes(old, new)), new)


def adopted(old: Plan, new: Plan) -> Plan:
    """The new plan, with names of columns as what the old one has written has them."""
    before: dict[str, Stage] = {stage.name: stage for stage in old.stages}
    stages: dict[str, Stage] = {stage.name: stage for stage in new.stages}
    for stage in new.stages:
        if stage.name in before:
            stages |= stage.adopting(new, before[stage.name], old)
    return replace(new, stages=tuple(stages.values()))


def _changes(old: Plan, new: Plan) -> Iterator[Change]:
    if old.application != new.application:
        yield Change("application.renamed", "application", f"{old.application} -> {new.application}")
    before, after = PlanIndex(old), PlanIndex(new)
    yield from _options(before.config, after.config)
    for name, stage in after.operators.items():
        if name in before.operators:
            for change in _operator(before.operators[name], stage, before, after):
                yield replace(change, stage=name)
        else:
            yield Change(f"{stage.change_kind}.added", f"{stage.kind} {name}", stage.shape())
    for name, stage in before.operators.items():
        if name not in after.operators:
            yield Change(f"{stage.change_kind}.removed", f"{stage.kind} {name}", stage.shape())
    for name, stage in after.tables.items():
        if name in before.tables:
            yield from _table(name, before, after)
        else:
            yield Change("table.added", f"table {name}", stage.sink.place)
    for name, stage in before.tables.items():
        if name not in after.tables:
            yield Change("table.removed", f"table {name}", stage.sink.place)


def _operator(old: Stage, new: Stage, before: PlanIndex, after: PlanIndex) -> Iterator[Change]:
    if old.kind != new.kind:
        yield Change("stage.kind", f"{new.kind} {new.name}", f"{old.title()} -> {new.title()}")
        # What one of the new kind had as inputs, if that has been there before.
        slicers = {stage.name: stage for stage in before.plan.stages}
        for name, category in new.reads().items():
            now = after.plan.writer(category)
            was = None if now is None else slicers.get(now.name)
            if now is not None and was is not None and was.fed_by(before) != now.fed_by(after):
                subject = f"{name} input of {new.kind} {new.name}"
                yield Change("join.input", subject, f"{was.fed_by(before)} -> {now.fed_by(after)}")
        return
    yield from new.changes(before, after)
    if old.sink.place != new.sink.place and old.table != new.table:
        # Of a table that is the same one, its own turn tells.
        yield Change("sink.changed", f"{new.kind} {new.name}", f"{old.sink.place} -> {new.sink.place}")


def _options(old: AppConfig, new: AppConfig) -> Iterator[Change]:
    for name in AppConfig.model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        kind = OPTION_KINDS.get(name, "option.changed")
        if name == "retention" and after < before:
            kind = "retention.shortened"
        words = [duration(each) if is_duration(name) else str(each) for each in (before, after)]
        yield Change(kind, f"option {name}", " -> ".join(words))


def _table(name: str, before: PlanIndex, after: PlanIndex) -> Iterator[Change]:
    old, new = before.tables[name], after.tables[name]
    subject = f"table {name}"
    was, now = old.fed_by(before), new.fed_by(after)
    if was == now:
        yield from new.source_changes(old, subject)
    elif _behind(old, before.plan) == _behind(new, after.plan) is not None:
        yield Change("table.moved", subject, f"{was} -> {now}", stage=old.name)
    else:
        yield Change("input.source", subject, f"{was} -> {now}", stage=new.name)
    for change in sink_changes(subject, old.sink, new.sink):
        yield replace(change, stage=old.name)
    yield from row_changes(subject, old, new)


def _behind(table: Stage, plan: Plan) -> str | None:
    """The operator whose rows a table stores: itself, or the one whose category it reads."""
    if table.stateful:
        return table.name
    writers = (plan.writer(category) for category in table.reads().values())
    return next((writer.name for writer in writers if writer is not None), None)


def replay_text(change: Change) -> str:
    """How far back a replay reads."""
    return "from the start of the source" if change.replay is None else f"the last {duration(change.replay)}"
