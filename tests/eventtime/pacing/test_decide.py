"""Decisions: how much is admitted, how a drain ends, and that each can be repeated."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.errors import StateError
from braid.core.positions import START, Position
from braid.core.times import MAX_TIME, MINUTE, SECOND
from braid.eventtime.ascending import Ascending
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.offset import Offset
from braid.eventtime.ordered import Ordered
from braid.eventtime.pacing.config import PacingConfig
from braid.eventtime.pacing.decision import InputStatus
from braid.testing.streams import MONDAY, chunk_of
from tests.eventtime.pacing.two_inputs import EXACT, START_OFFSET, config, next_offset, stream


def test_a_budget_bounds_a_batch_and_grows_under_backlog() -> None:
    sides = stream(*np.arange(0, 50, 0.1)), stream(*np.arange(10, 60, 0.1))
    offset, sizes = START_OFFSET, []
    for _ in range(7):
        found = next_offset(offset, *sides, config(batch_rows=1_000, max_growth=8), now=0)
        offset = found.offset
        sizes.append(found.rows)
        assert found.limited
    assert sizes == [1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000]
    assert offset.growth == 8
    calm = next_offset(
        offset, *(side[: offset.inputs["left"].position.commit + 1] for side in sides), config(), now=0
    )
    assert not calm.limited


def test_a_chunk_larger_than_the_budget_is_admitted_alone() -> None:
    found = next_offset(START_OFFSET, stream(0), stream(0, 1), config(batch_rows=1), now=0)
    assert (found.rows, found.limited) == (100, True)


def test_only_as_many_records_are_read_as_are_admitted() -> None:
    read = itertools.count()

    def endless() -> itertools.chain[ChunkTimes]:
        for commit in itertools.count():
            next(read)
            yield stream(commit / 100, start=commit)[0]

    next_offset(START_OFFSET, endless(), endless(), config(batch_rows=1_000), now=0)
    assert next(read) <= 12


def test_drain_ends_both_streams_once_all_is_admitted() -> None:
    left, right = stream(0, 500), stream(*range(30))
    found = next_offset(START_OFFSET, left, right, config(batch_rows=2_000), now=0, draining=True)
    assert not found.offset.drained
    found = next_offset(found.offset, left, right, config(), now=0, draining=True)
    assert found.offset.drained
    assert (found.inputs["left"].stream_time, found.inputs["right"].stream_time) == (MAX_TIME, MAX_TIME)
    assert (found.inputs["left"].upto.commit, found.inputs["right"].upto.commit) == (1, 29)
    assert found.inputs["left"].status is InputStatus.ENDED
    again = next_offset(found.offset, left, right, config(), now=5, draining=True)
    assert again.offset is found.offset
    more = next_offset(found.offset, stream(0, 500, 2), right, config(), now=5)
    assert (more.inputs["left"].chunks, more.inputs["left"].stream_time) == (1, MAX_TIME)


def test_drain_of_nothing() -> None:
    assert next_offset(START_OFFSET, [], [], config(), now=0, draining=True).offset.drained


def test_an_empty_commit_moves_a_propagated_watermark() -> None:
    left = [chunk_of([], 0, -1, watermark=MONDAY)]
    found = next_offset(START_OFFSET, left, [], config(), now=0)
    assert (found.inputs["left"].rows, found.inputs["left"].upto, found.inputs["left"].stream_time) == (
        0,
        Position(0, -1),
        MONDAY,
    )


def test_records_out_of_order_are_refused() -> None:
    with pytest.raises(StateError, match=r"\(0, 0\) of the left input comes after \(1, 0\)"):
        next_offset(START_OFFSET, stream(1, start=1) + stream(2), [], config(), now=0)


@pytest.mark.parametrize(
    ("old", "new"),
    [*itertools.permutations([Calibrated(), Ascending(), Ordered(MINUTE), Ordered(3 * MINUTE), EXACT], 2)],
)
def test_another_estimator_goes_on_from_where_stream_time_is(old, new) -> None:
    chunks = [
        chunk_of(MONDAY + i * MINUTE + np.arange(100) * SECOND // 2, i, watermark=MONDAY + i * MINUTE)
        for i in range(60)
    ]
    before, after = (config(0, slack=10**12, left=estimator, right=estimator) for estimator in (old, new))
    offset = next_offset(START_OFFSET, chunks[:30], chunks[:30], before, now=0).offset
    reached = offset.inputs["left"].stream_time
    assert reached > MONDAY
    for count in range(31, 61):
        recent = [chunk for chunk in chunks[:count] if chunk.position > offset.inputs["left"].needed]
        offset = Offset.from_text(next_offset(offset, recent, recent, after, now=0).offset.to_text())
        assert reached <= offset.inputs["left"].stream_time <= MONDAY + count * MINUTE
    assert offset.inputs["left"].stream_time > reached + 20 * MINUTE


# A chunk is a few event times around a centre that may be anything, or none at all.
chunk_times = st.tuples(st.integers(-500, 500), st.lists(st.integers(0, 60), max_size=4), st.booleans())
inputs = st.lists(chunk_times, max_size=25)
estimators = st.sampled_from(
    [
        Calibrated(5),
        Ascending(5, windows=2, max_window=4),
        Ascending(windows=3, max_window=1),
        Ordered(MINUTE),
        EXACT,
    ]
)


def build(chunks: list[tuple[int, list[int], bool]]) -> list[ChunkTimes]:
    return [
        chunk_of(
            [MONDAY + centre * MINUTE + s * SECOND for s in spread],
            i // 2,
            i % 2,
            nulls=1,
            watermark=MONDAY + centre * MINUTE if marked else None,
            last=i % 2 == 1,
        )
        for i, (centre, spread, marked) in enumerate(chunks)
    ]


@settings(max_examples=150, deadline=None)
@given(
    left=inputs,
    right=inputs,
    upper=st.integers(-120, 120),
    slack=st.integers(0, 30),
    waits=st.booleans(),
    budget=st.integers(1, 30),
    estimator=st.tuples(estimators, estimators),
    draining=st.booleans(),
)
def test_no_deadlock_and_every_decision_replays(
    left, right, upper, slack, waits, budget, estimator, draining
) -> None:
    estimators = {"left": estimator[0], "right": estimator[1]}
    waits = waits and draining
    setup = PacingConfig(estimators, upper * MINUTE, slack * MINUTE, 30 * SECOND, budget, waits=waits)
    sides = build(left), build(right)
    offset, now = START_OFFSET, 0
    admitted: tuple[list[Position], list[Position]] = ([], [])
    for _ in range(len(left) + len(right) + 3):
        before = dataclasses.replace(offset)
        found = next_offset(before, *sides, setup, now, draining=draining)
        resumed = Offset.from_text(before.to_text())
        recent = [
            [c for c in side if c.position > resumed.inputs[name].needed]
            for side, name in zip(sides, ("left", "right"), strict=True)
        ]
        assert next_offset(resumed, *recent, setup, now, draining=draining) == found
        for side, log, got in zip(
            sides, admitted, (found.inputs["left"], found.inputs["right"]), strict=True
        ):
            chosen = [c.position for c in side if got.after < c.position <= got.upto]
            assert len(chosen) == got.chunks
            log.extend(chosen)
        assert found.inputs["left"].stream_time >= offset.inputs["left"].stream_time
        assert found.inputs["right"].stream_time >= offset.inputs["right"].stream_time
        if not found.rows and not draining:
            # Only silence can stop progress, and only until it is taken for what it is.
            assert now == 0 or all(
                log == [c.position for c in s] for s, log in zip(sides, admitted, strict=True)
            )
            now = 31 * SECOND
        offset = found.offset
    assert [log == [c.position for c in side] for side, log in zip(sides, admitted, strict=True)] == [
        True
    ] * 2
    assert offset.drained is draining
    assert (offset.inputs["left"].stream_time == MAX_TIME) is draining
    assert offset.inputs["left"].position == (sides[0][-1].position if left else START)
