"""Joins and their watermarks in words, shared by explain and diff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from braid.core.columns import TIME
from braid.core.side import Side
from braid.core.times import FOREVER
from braid.kernels.join.predicate import And, Compare, IsNull, Not, Or, Predicate, Truth
from braid.kernels.join.spec import SeriesMode
from braid.plan.stages.event_times import TimeColumn
from braid.plan.time_words import duration, left_buffering, right_buffering, window

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage

_KINDS = {
    SeriesMode.PAIRS: "time-series",
    SeriesMode.SPARSE: "sparse time-series",
    SeriesMode.PREVIOUS: "asof",
    SeriesMode.NEXT: "asof",
    SeriesMode.NEAREST: "asof",
}
_PARTNERS = {
    SeriesMode.PAIRS: "every row with its predecessor and its successor on the other side",
    SeriesMode.SPARSE: "every row with the nearer of its predecessor and its successor on the other side",
    SeriesMode.PREVIOUS: "the last right row {at}before the left row",
    SeriesMode.NEXT: "the first right row {at}after the left row",
    SeriesMode.NEAREST: "the right row nearest to the left row",
}


def title(stage: JoinStage) -> str:
    """`left join v, match all`, `inner time-series join v`."""
    kind, rest = _title(stage)
    return f"{kind} {stage.name}{rest}"


def summary(stage: JoinStage) -> str:
    """The title without the name: `left join, match all`."""
    return "".join(_title(stage))


def _title(stage: JoinStage) -> tuple[str, str]:
    """What stands before and after the name in a title."""
    if stage.series is not None:
        return f"{stage.type.value} {_KINDS[stage.series]} join", ""
    once = ", each right row once" if stage.consume else ""
    return f"{stage.type.value} join", f", match {stage.match.value}{once}"


def matching(stage: JoinStage) -> str:
    """What pairs two rows: a window, or being neighbours."""
    if stage.series is None:
        return f"window: right time - left time in {window(stage.lower, stage.upper)}"
    partner = _PARTNERS[stage.series].format(at="at or " if stage.inclusive else "")
    return f"pairs: {partner}, {distance(stage.within)}"


def pairing(stage: JoinStage) -> str:
    """What kind of join it is, apart from its type."""
    if stage.series is None:
        return "window"
    strict = "" if stage.inclusive else ", not at the same time"
    return f"{_KINDS[stage.series]} {stage.series.value}{strict}"


def distance(within: int | None) -> str:
    """How far apart the rows of a pair may be."""
    return "at any distance" if within is None else f"at most {duration(within)} apart"


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


def sharding(stage: JoinStage) -> str | None:
    """What the shards of a join without keys read."""
    if stage.single_shard:
        return "one shard, which sees all rows: both sides decide what is matched"
    if stage.broadcast is not None:
        whole, split = stage.broadcast.value, stage.broadcast.other.value
        return f"every shard reads all {whole} rows; {split} rows are split"
    return None


def buffering(stage: JoinStage, side: Side) -> str:
    """How long rows of a side are kept for partners to come."""
    symmetric = stage.series is not None and stage.series.symmetric
    if side is Side.LEFT:
        wait = left_buffering(stage.upper)
    else:
        wait = left_buffering(stage.upper) if symmetric else right_buffering(stage.lower)
    return "until the next one of the other side" if wait >= FOREVER else duration(wait)


def unmatched(stage: JoinStage) -> str | None:
    """When padded rows come out, if not when the window closes."""
    if stage.pad_after is None:
        return None
    return f"unmatched rows: after a wait of {duration(stage.pad_after)}, or when the window has closed"


def watermarks(stage: JoinStage) -> Iterator[str]:
    """Every event time that is passed on, and what holds its watermark back."""
    behind = f" - {duration(stage.upper)}" if stage.upper else ""
    held = f"min(left stream time, right stream time{behind})"
    if stage.upper < 0:
        held = f"min(left stream time, right stream time + {duration(-stage.upper)})"
    for time in stage.watermarks:
        yield f"{time.column}: {_watermark(time, held, stage.lower)}"


def _watermark(time: TimeColumn, held: str, lower: int) -> str:
    """Rows of the left side wait for the right stream; those of the right side come out with them."""
    shift = (lower if time.side == Side.RIGHT else 0) - time.lag
    moved = held if not shift else f"{held} {'+' if shift > 0 else '-'} {duration(abs(shift))}"
    if time.input == TIME:
        return moved
    return f"the watermark of {time.input} in the {time.side} input, held back to {moved}"
