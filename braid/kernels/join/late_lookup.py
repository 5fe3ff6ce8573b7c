"""Late rows look up their partners in the log: those that have left memory, in blocks that overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from braid.core.columns import HASH
from braid.core.positions import Position
from braid.core.side import Side
from braid.kernels.arrays import Ints
from braid.kernels.blocks import BlockSource, BlockStore
from braid.kernels.join.pairs import Pairs, batched, near, reach, verify, window, within
from braid.kernels.join.parse import parse
from braid.kernels.join.runs import Run, probe, shares_key
from braid.kernels.join.spec import JoinSpec


class Late(NamedTuple):
    """Rows of `side` whose window reaches below the other side's `floor`."""

    side: Side
    run: Run
    times: Ints
    floor: int


class Found(NamedTuple):
    """Matches of late rows; on the other side, rows are numbered in `guests`."""

    guests: BlockStore
    pairs: Pairs


def find_late(spec: JoinSpec, side: Side, run: Run, times: Ints, floor: int) -> Late:
    """Which of new rows are late."""
    behind = window(spec, side, times)[0] < floor
    return Late(side, run.select(behind), times[behind], floor)


def look_back(
    spec: JoinSpec, source: BlockSource, own: BlockStore, late: Late, until: Position
) -> Iterator[Found]:
    """Matches of late rows with rows below the floor, in blocks up to and including `until`."""
    low, high = window(spec, late.side, late.times)
    other = late.side.other
    blocks = source.overlapping(other, until, int(low.min()), min(int(high.max()), late.floor - 1))
    guests = BlockStore(source.schema(other))
    left, right = (own, guests) if late.side is Side.LEFT else (guests, own)
    for pairs in batched(_candidates(spec, source, guests, late, blocks)):
        yield Found(guests, verify(spec, left, right, pairs))


def _candidates(
    spec: JoinSpec, source: BlockSource, guests: BlockStore, late: Late, blocks: Sequence[Position]
) -> Iterator[Pairs]:
    low, high = reach(spec, late.side, late.run, late.times)
    for block in blocks:
        batch = source.read(late.side.other, block)
        if spec.keys and not shares_key(batch.column(HASH).to_numpy(), late.run.key):
            continue  # most blocks hold none of the few late keys, and are not worth an index
        older = parse(batch, spec, guests.rows)
        hits = []
        bounds = near(spec, late.side, late.times, older.times, guests.rows)
        for needle, position in probe(older.run, low, high, bounds):
            row = older.run.row[position]
            time = older.times[row - guests.rows]
            mine, theirs = (late.run.row[needle], late.times[needle]), (row, time)
            both = Pairs(*mine, *theirs) if late.side is Side.LEFT else Pairs(*theirs, *mine)
            hits.append(within(spec, both.select(time < late.floor)))
        if any(len(pairs.left) for pairs in hits):
            guests.append(block, batch)
            yield from hits
