"""Decided rows that are remembered for late ones: a cache, which changes nothing that anybody can see."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings

from braid.core.counters import Counters
from braid.core.positions import Position
from braid.core.side import Side
from braid.kernels.join import state as join_state
from braid.kernels.join.buffer import Buffer
from braid.kernels.join.interval import IntervalJoin
from braid.kernels.join.lateness import Lateness
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode
from braid.kernels.join.step import two_sided
from tests.kernels.join.harness import OUTPUT, Case, MemorySource, Row, schema, to_block
from tests.kernels.join.strategies import cases


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as found:
        yield found


def run(patch: pytest.MonkeyPatch, case: Case, remember: str) -> Case:
    """Run a copy of a case that remembers nothing, everything, or as much as it wants."""

    def make(*arguments: object, remembers: bool, **named: object) -> Buffer:
        return Buffer(*arguments, remembers=remembers and remember != "nothing", **named)  # type: ignore[arg-type]

    with patch.context() as inner:
        inner.setattr(join_state, "Buffer", make)
        if remember == "everything":
            inner.setattr(Buffer, "_forget", lambda buffer: None)
        copy = dataclasses.replace(
            case, pairs=case.pairs.copy(), counts=Counters(), lost=[], steps=[], states=[]
        )
        return copy.run()


def compare(patch: pytest.MonkeyPatch, case: Case) -> None:
    nothing, everything, some = (run(patch, case, how) for how in ("nothing", "everything", "some"))
    for other in (everything, some):
        assert other.pairs == nothing.pairs
        assert other.counts == nothing.counts
        assert sorted(map(str, other.lost)) == sorted(map(str, nothing.lost))
        assert other.states == nothing.states


@given(cases(late=frozenset(Side)))
@settings(max_examples=60, deadline=None)
def test_what_is_remembered_changes_nothing(patch: pytest.MonkeyPatch, case: Case) -> None:
    compare(patch, case)


@given(cases(late=frozenset(Side), caps=True))
@settings(max_examples=30, deadline=None)
def test_nor_does_it_with_caps(patch: pytest.MonkeyPatch, case: Case) -> None:
    compare(patch, case)


@given(cases(late=frozenset(Side), matches=(MatchMode.ALL,)))
@settings(max_examples=40, deadline=None)
def test_nor_does_it_when_the_log_forgets(patch: pytest.MonkeyPatch, case: Case) -> None:
    """Rows that the log no longer has are not found in memory either: a restart would not find them."""
    case.forget = True
    compare(patch, case)


class Counting(MemorySource):
    """Counts the blocks that are read."""

    reads = 0

    def read(self, side: Side, block: Position) -> object:
        self.reads += 1
        return super().read(side, block)


def live(
    minutes: int, source: MemorySource, join: IntervalJoin, behind: float = 0.1
) -> Iterator[tuple[int, int]]:
    """A live stream: per step one block per side; late left rows and blocks read again, of each step."""
    rng = np.random.default_rng(7)
    kind = schema(())
    for number in range(minutes):
        blocks = [Position(number, 0)]
        for side in Side:
            # Every tenth row, as a rule, is behind stream time, by up to a tenth of the window.
            times = number * 10 + rng.integers(0, 10, 20) - np.where(rng.random(20) < behind, 30, 0)
            rows: list[Row] = [
                {"__time": int(t), "__live": True, "id": number * 20 + i, "x": 0.0}
                for i, t in enumerate(times)
            ]
            source.blocks[side][blocks[0]] = to_block(rows, kind, 0)
        before = source.reads
        now = number * 10
        out = join.step(two_sided(blocks, blocks, now, now))
        yield out.counts.inputs["left"].late, source.reads - before - 2


def test_barely_late_rows_open_no_blocks() -> None:
    source = Counting(schema(()))
    join = IntervalJoin(JoinSpec(JoinType.LEFT, -300, 300, 0, OUTPUT), source)
    steps = list(live(200, source, join))
    assert sum(late for late, _ in steps) > 300
    # A row that is later than any before it may have to look once: the memory grows by what is seen.
    assert sum(reads for _, reads in steps[:100]) < 20
    assert sum(reads for _, reads in steps[100:]) == 0


def test_while_no_row_is_late_nothing_is_remembered() -> None:
    source = Counting(schema(()))
    join = IntervalJoin(JoinSpec(JoinType.LEFT, -300, 300, 0, OUTPUT), source)
    for late, reads in live(60, source, join, behind=0):
        assert (late, reads) == (0, 0)
        assert all(join.buffer(side).memory == join.buffer(side).floor for side in Side)
    # Right rows are decided up to 290: the first late row finds those from 250 on in their four blocks.
    block = Position(60, 0)
    late_row: Row = {"__time": 550, "__live": True, "id": 10_000, "x": 0.0}
    source.blocks[Side.LEFT][block] = to_block([late_row], schema(()), 0)
    before = source.reads
    out = join.step(two_sided([block], [], 590, 590))
    assert (out.counts.inputs["left"].late, out.counts.rescued) == (1, 4 * 20)
    assert source.reads - before == 1 + 4
    assert join.buffer(Side.RIGHT).lateness.depth() >= 40


@pytest.mark.parametrize("apart", [False, True])
def test_what_is_looked_for_elsewhere_is_not_worth_remembering(apart: bool) -> None:
    """A late right row of a LEFT join has lost a match, which one shard may count for all."""
    kind = schema(())
    source, elsewhere = MemorySource(kind), MemorySource(kind)
    elsewhere.blocks = source.blocks
    for side, time in ((Side.LEFT, 10), (Side.RIGHT, 11)):
        rows: list[Row] = [{"__time": time, "__live": True, "id": 1, "x": 0.0}]
        source.blocks[side][Position(0, 0)] = to_block(rows, kind, 0)
    losses = {Side.RIGHT: elsewhere} if apart else None
    join = IntervalJoin(JoinSpec(JoinType.LEFT, -3, 3, 0, OUTPUT), source, losses=losses)
    join.step(two_sided([Position(0, 0)], [], 100, 100))
    out = join.step(two_sided([], [Position(0, 0)], 100, 100))
    assert (out.counts.inputs["right"].late, out.counts.lost_matches) == (1, 1)
    assert (join.buffer(Side.LEFT).lateness.depth() > 0) is not apart


def test_memory_is_bounded_by_a_share_of_what_is_live() -> None:
    source = Counting(schema(()))
    join = IntervalJoin(JoinSpec(JoinType.LEFT, -300, 300, 0, OUTPUT), source)
    for number, _ in enumerate(live(400, source, join)):
        if number > 100:
            for side in Side:
                buffer = join.buffer(side)
                assert buffer.store.rows <= 3 * buffer.live
                assert buffer.store.segments <= 3


def test_depth_covers_nearly_all_late_rows() -> None:
    lateness = Lateness()
    assert lateness.depth() == 0
    lateness.note(np.full(1000, 900))
    lateness.note(np.full(5, 10**9))
    assert lateness.depth() == 1024
    for _ in range(20):
        lateness.fade()
    assert lateness.depth() == 0
