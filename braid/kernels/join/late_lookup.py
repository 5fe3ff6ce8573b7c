"""Late rows look up their partners in the log: those that have left memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH, LIVE, TIME
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
    spec: JoinSpec,
    source: BlockSource,
    own: BlockStore,
    late: Late,
    until: Position,
    after: Position | None = None,
) -> Iterator[Found]:
    """Matches of late rows with rows below the floor, in blocks after one, up to and including another."""
    guests = BlockStore(source.schema(late.side.other))
    left, right = (own, guests) if late.side is Side.LEFT else (guests, own)
    for pairs in batched(_candidates(spec, source, guests, late, until, after)):
        yield Found(guests, verify(spec, left, right, pairs))


def _blocks(
    spec: JoinSpec, source: BlockSource, late: Late, until: Position
) -> Iterable[tuple[Position, Ints | None]]:
    """Where partners may be: blocks, and the rows in them, or None for all."""
    low, high = window(spec, late.side, late.times)
    high = np.minimum(high, late.floor - 1)
    if spec.keys:
        return source.find(late.side.other, until, late.run.key, low, high)
    blocks = source.overlapping(late.side.other, until, int(low.min()), int(high.max()))
    return [(block, None) for block in blocks]


def _candidates(
    spec: JoinSpec,
    source: BlockSource,
    guests: BlockStore,
    late: Late,
    until: Position,
    after: Position | None,
) -> Iterator[Pairs]:
    low, high = reach(spec, late.side, late.run, late.times)
    for block, rows in _blocks(spec, source, late, until):
        if after is not None and block <= after:
            continue
        batch = source.read(late.side.other, block)
        if rows is not None:
            some = _rows(batch, spec, rows)
        elif spec.keys and not shares_key(batch.column(HASH).to_numpy(), late.run.key):
            continue  # most blocks hold none of the few late keys, and are not worth an index
        else:
            some = batch
        older = parse(some, spec, 0)
        hits = []
        bounds = near(spec, late.side, late.times, older.times)
        for needle, position in probe(older.run, low, high, bounds):
            place = older.run.row[position]
            time = older.times[place]
            row = guests.rows + (place if rows is None else rows[place])
            mine, theirs = (late.run.row[needle], late.times[needle]), (row, time)
            both = Pairs(*mine, *theirs) if late.side is Side.LEFT else Pairs(*theirs, *mine)
            hits.append(within(spec, both.select(time < late.floor)))
        if any(len(pairs.left) for pairs in hits):
            guests.append(block, batch)
            yield from hits


def _rows(batch: pa.RecordBatch, spec: JoinSpec, rows: Ints) -> pa.RecordBatch:
    """Some rows of a block, with the columns that `parse` needs."""
    names = [name for name in (HASH, TIME, LIVE, *spec.key_columns) if name in batch.schema.names]
    return batch.select(names).take(pa.array(rows))
