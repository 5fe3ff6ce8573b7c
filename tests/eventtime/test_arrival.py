"""Chunks without an order of arrival get one that does not make rows late."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.eventtime.arrival import ChunkOrder, by_bounds, by_median, in_order
from braid.eventtime.ordered import Ordered
from braid.testing.streams import chunk_of


def late(chunks: list, disorder: int) -> int:
    """How many chunks hold a row that is late."""
    clock, found = Ordered(disorder).start(), 0
    for chunk in chunks:
        found += chunk.min is not None and chunk.min < clock.stream_time
        clock.observe(chunk)
    return found


@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.integers(0, 200), min_size=1, max_size=60),
    disorder=st.integers(0, 60),
    cuts=st.sets(st.integers(0, 60)),
    rng=st.randoms(use_true_random=False),
)
def test_a_stream_keeps_to_its_bound(times, disorder, cuts, rng) -> None:
    arrival = [time + rng.randint(0, disorder) for time in sorted(times)]
    stream = np.array(sorted(times))[np.argsort(arrival, kind="stable")]
    bound = int((np.maximum.accumulate(stream) - stream).max())
    chunks = [chunk_of(rows, number) for number, rows in enumerate(np.split(stream, sorted(cuts)))]
    rng.shuffle(chunks)
    assert late([chunks[number] for number in by_bounds(chunks)], bound) == 0


def test_medians_do_not_keep_to_a_bound_but_bear_with_wrong_clocks() -> None:
    first, second = chunk_of([0, 10, 10], 0), chunk_of([5, 5, 100], 1)
    assert late([first, second], disorder=5) == 0
    assert by_bounds([second, first]) == [1, 0]
    assert by_median([first, second]) == [1, 0]
    wrong = chunk_of([1, 2, 3, 10**9], 0)
    assert by_median([chunk_of([4, 5, 6], 1), wrong]) == [1, 0]


def test_chunks_without_times_come_first() -> None:
    chunks = [chunk_of([1], 0), chunk_of([], 1, nulls=3)]
    assert by_bounds(chunks) == by_median(chunks) == [1, 0]


def test_where_arrival_is_known_a_row_that_breaks_the_promise_makes_no_other_late() -> None:
    chunks = [chunk_of(times, number) for number, times in enumerate(([0, 10], [20, 30], [-900, 50], [60]))]
    assert in_order(ChunkOrder.ARRIVAL, chunks) == [0, 1, 2, 3]
    assert late(chunks, 20) == 1
    assert in_order(ChunkOrder.BOUNDS, chunks)[0] == 2
    assert in_order(ChunkOrder.MEDIAN, chunks) == by_median(chunks)
