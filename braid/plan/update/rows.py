"""Changes that stages of every kind have in common: of lookups, filters, columns, sources and sinks."""

from __future__ import annotations

from collections.abc import Iterator

from braid.core.side import Side
from braid.plan.names import OPERAND, raw
from braid.plan.stages.base import Projection, Sink, Source, Stage
from braid.plan.time_words import order
from braid.plan.update.change import Change


def sink_changes(subject: str, old: Sink, new: Sink) -> Iterator[Change]:
    """Changes of where a table is stored."""
    if old.place != new.place:
        yield Change("sink.changed", subject, f"{old.place} -> {new.place}")
    elif old.keys != new.keys:
        yield Change("sink.keys", subject, f"{', '.join(old.keys)} -> {', '.join(new.keys)}")
    elif (old.shard_by is None) != (new.shard_by is None) and new.kind.connector.logged:
        detail = f"SHARD BY {old.shard_by or 'nothing'} -> {new.shard_by or 'nothing'}"
        yield Change("sink.sharded", subject, detail)
    elif (old.options, old.shard_by, old.values) != (new.options, new.shard_by, new.values):
        yield Change("sink.options", subject, "options, values or SHARD BY")


def lookup_changes(subject: str, old: Stage, new: Stage) -> Iterator[Change]:
    """Changes of what is looked up, and how."""
    if old.lookups != new.lookups:
        before, after = ("; ".join(lookup.text for lookup in stage.lookups) or "none" for stage in (old, new))
        yield Change("lookup.changed", subject, f"{before} -> {after}")


def row_changes(subject: str, old: Stage, new: Stage) -> Iterator[Change]:
    """Changes of the rows that a stage stores."""
    yield from lookup_changes(subject, old, new)
    if old.filter != new.filter:
        yield Change("filter.changed", subject, f"{old.filter or 'all'} -> {new.filter or 'all'}")
    stays = old.sink.place == new.sink.place
    if old.sink.kind.connector.relayed and new.sink.kind.connector.relayed:
        stays = old.name == new.name  # they are stored in a category of the stage first
    yield from column_changes(subject, old.columns, new.columns, "column.type" if stays else "column.retyped")


def source_changes(
    subject: str, old: Source, new: Source, back: int | None, unit: str = "input.time_unit"
) -> Iterator[Change]:
    """Changes in how a source is read; `back` is how far a replay reads, `unit` the rule on times."""
    if old.options != new.options:
        yield Change("input.options", subject, "options of the source")
    if old.time_unit != new.time_unit:
        yield Change(unit, subject, f"{old.time_unit} -> {new.time_unit}", back)
    if old.disorder != new.disorder:
        yield Change("input.ordered", subject, f"{order(old.disorder)} -> {order(new.disorder)}")


def column_changes(
    subject: str, old: tuple[Projection, ...], new: tuple[Projection, ...], retyped: str
) -> Iterator[Change]:
    """Changes of columns; operands of residuals, named after their text, are judged with the residual.

    `retyped` is the rule on their types.
    """
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
            yield Change(retyped, subject, f"{_shown(name)}: {was.type} -> {now.type}")
        elif was.sql != now.sql:
            yield Change("column.changed", subject, f"{_shown(name)}: {was.sql} -> {now.sql}")
    if common != [name for name in after if name in before]:
        yield Change("column.reordered", subject, ", ".join(_shown(name) for name in after))


def _shown(name: str) -> str:
    for side in Side:
        prefix = raw(side, "")
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
