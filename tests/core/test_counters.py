"""Counters: what is declared merges as declared, and survives its codec."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.core.counters import (
    Counters,
    InputCounters,
    Kind,
    Merge,
    declared,
    difference,
    from_json,
    merge,
    to_json,
)
from braid.core.errors import StateError

NUMBERS = st.integers(-(2**50), 2**50)
"""Their sums are exact as floats, too."""
VALUES = {
    Merge.SUM: NUMBERS,
    Merge.LAST: st.none() | NUMBERS,
    Merge.LEAST: st.none() | NUMBERS,
    Merge.ELEMENTWISE: st.lists(NUMBERS, max_size=3),
    Merge.CONCATENATION: st.lists(NUMBERS, max_size=3),
    Merge.SUM_BY_KEY: st.dictionaries(st.sampled_from("abc"), NUMBERS),
    Merge.LEAST_BY_KEY: st.dictionaries(st.sampled_from("abc"), NUMBERS),
}
PER_INPUT = st.builds(InputCounters, **{one.name: VALUES[one.merge] for one in declared() if one.of_input})
COUNTERS = st.builds(
    Counters,
    inputs=st.dictionaries(st.sampled_from(["left", "right", "third"]), PER_INPUT),
    **{one.name: VALUES[one.merge] for one in declared() if not one.of_input and one.name != "inputs"},
)


@given(COUNTERS)
def test_the_codec_gives_back_what_it_was_given(counters: Counters) -> None:
    assert from_json(json.loads(json.dumps(to_json(counters)))) == counters


@given(COUNTERS, COUNTERS, COUNTERS)
def test_merging_does_not_depend_on_how_parts_are_grouped(a: Counters, b: Counters, c: Counters) -> None:
    assert merge([merge([a, b]), c]) == merge([a, merge([b, c])]) == merge([a, b, c])
    assert merge([a]) == merge([a, Counters()]) == a


def test_figures_merge_as_they_are_declared() -> None:
    one = Counters(
        matches=1,
        dead={"x": 1},
        distances_lower=[1, 2],
        task_ms=[3],
        inputs={"left": InputCounters(rows=1, stream_time=5, lost={"late": 2})},
    )
    two = Counters(
        matches=2,
        dead={"x": 2, "y": 1},
        distances_lower=[3, 4],
        task_ms=[4],
        inputs={
            "left": InputCounters(rows=2, stream_time=5, lost={"late": 1}),
            "right": InputCounters(rows=7),
        },
    )
    assert merge([one, two]) == Counters(
        matches=3,
        dead={"x": 3, "y": 1},
        distances_lower=[4, 6],
        task_ms=[3, 4],
        inputs={
            "left": InputCounters(rows=3, stream_time=5, lost={"late": 3}),
            "right": InputCounters(rows=7),
        },
    )


def test_of_what_shards_hold_the_least_counts() -> None:
    held = [{"left": {"o": 7}}, {}, {"left": {"o": 4}, "right": {"x": 9}}]
    parts = [
        Counters(inputs={side: InputCounters(held=least) for side, least in part.items()}) for part in held
    ]
    found = merge(parts).inputs
    assert {side: counted.held for side, counted in found.items()} == {"left": {"o": 4}, "right": {"x": 9}}


def test_the_oldest_block_is_that_of_all_shards() -> None:
    shards = [InputCounters(), InputCounters(), InputCounters()]
    shards[0].hold(2, 7)
    shards[2].hold(1, 3)
    merged = merge(Counters(inputs={"left": shard}) for shard in shards).inputs["left"]
    assert (merged.oldest, merged.blocks) == (3, 3)


def test_gauges_and_timings_do_not_add_up_over_micro_batches() -> None:
    counted = Counters(
        matches=1, epoch=2, join_ms=3.5, inputs={"left": InputCounters(rows=4, pending=5, stream_time=6)}
    )
    assert counted.cumulative() == Counters(matches=1, inputs={"left": InputCounters(rows=4)})


@given(COUNTERS, COUNTERS)
def test_a_difference_is_what_was_added(one: Counters, two: Counters) -> None:
    earlier, more = one.cumulative(), two.cumulative()
    later = merge([earlier, more])
    assert merge([earlier, difference(later, earlier)]) == later


def test_every_figure_says_what_it_means() -> None:
    assert all(one.meaning.endswith(".") for one in declared())
    assert {one.kind for one in declared()} == set(Kind)
    assert {one.merge for one in declared()} == set(Merge)
    assert len(declared()) == len(fields(Counters)) + len(fields(InputCounters))


def test_flat_counters_of_the_first_version_are_read() -> None:
    flat = {
        "batch": 3,
        "rows_in": 9,
        "rows_left": 4,
        "padded_early_right": 2,
        "lost_late_left": 1,
        "lost_beyond_retention": 1,
        "left_time": 0,
        "right_time": 8,
        "held": {"left.o": 7},
        "dead": {"late_left": 1},
    }
    assert from_json(flat) == Counters(
        rows_in=9,
        dead={"late_left": 1},
        inputs={
            "left": InputCounters(rows=4, lost={"late": 1}, stream_time=0, held={"o": 7}),
            "right": InputCounters(padded_early=2, stream_time=8),
        },
    )


@pytest.mark.parametrize(
    "value", [[], {"matches": "3"}, {"dead": [1]}, {"task_ms": {}}, {"inputs": {"left": 3}}, {"inputs": []}]
)
def test_what_is_no_counter_is_refused(value: object) -> None:
    with pytest.raises(StateError):
        from_json(value)
