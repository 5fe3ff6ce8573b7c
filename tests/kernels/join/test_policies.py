"""One-to-one joins, and padding after a wall-clock wait."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pyarrow as pa
from hypothesis import given, settings

from braid.core.columns import LIVE, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME
from braid.kernels.join.interval import IntervalJoin
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode
from braid.kernels.join.step import two_sided
from tests.kernels.join.harness import OUTPUT, Case, MemorySource, expected, schema, to_block
from tests.kernels.join.strategies import cases


def one_to_one(case: Case) -> Counter[tuple[object, object]]:
    """Left rows in order of time and arrival each take the first free right row in the same order."""
    spec = dataclasses.replace(case.spec, type=JoinType.INNER, match=MatchMode.ALL, consume=False)
    place = {
        row["id"]: (row[TIME], arrival)
        for side in (case.left, case.right)
        for arrival, row in enumerate(row for block in side for row in block)
    }
    pairs = sorted(
        expected(dataclasses.replace(case, spec=spec)), key=lambda pair: (place[pair[0]], place[pair[1]])
    )
    taken: set[object] = set()
    result: Counter[tuple[object, object]] = Counter()
    for left, right in pairs:
        if not taken & {left, right}:
            taken |= {left, right}
            result[left, right] += 1
    for side, blocks in ((Side.LEFT, case.left), (Side.RIGHT, case.right)):
        if case.spec.type.pads(side):
            alone = [row["id"] for block in blocks for row in block if row["id"] not in taken]
            result.update((id_, None) if side is Side.LEFT else (None, id_) for id_ in alone)
    return result


@given(cases(matches=(MatchMode.FIRST,)))
@settings(max_examples=60)
def test_consume_matches_each_row_at_most_once_in_order_of_time(case: Case) -> None:
    case.spec = dataclasses.replace(case.spec, consume=True)
    assert case.run().pairs == one_to_one(case)
    case.check_decided()


def row(id_: int, time: int) -> dict[str, object]:
    return {"id": id_, TIME: time, LIVE: True, "__key0": "k", "x": None}


def test_padding_after_a_wall_clock_wait_counts_later_matches() -> None:
    """A left row published at 0 waits 500 by the wall clock; its match comes after that."""
    kind = schema((pa.string(),))
    source = MemorySource(kind)
    source.blocks[Side.LEFT][Position(0, 0)] = to_block([row(1, 10), row(2, 11)], kind, 1)
    source.blocks[Side.RIGHT][Position(0, 0)] = to_block([row(11, 14)], kind, 1)
    source.blocks[Side.RIGHT][Position(0, 1)] = to_block([row(12, 10)], kind, 1)
    spec = JoinSpec(JoinType.LEFT, -3, 3, 1, OUTPUT, pad_after=500)
    join = IntervalJoin(spec, source)
    first = join.step(two_sided([Position(0, 0)], [Position(0, 0)], 0, 0, wall_time=400))
    assert first.rows.to_pylist() == [{"l": 2, "r": 11}]
    join = IntervalJoin(spec, source, join.snapshot())
    second = join.step(two_sided([], [], 0, 0, wall_time=500))
    assert second.rows.to_pylist() == [{"l": 1, "r": None}]
    join = IntervalJoin(spec, source, join.snapshot())
    third = join.step(two_sided([], [Position(0, 1)], 0, 0, wall_time=600))
    assert third.rows.to_pylist() == [{"l": 2, "r": 12}]
    assert third.counts.matches_after_padding == 1
    last = join.step(two_sided([], [], MAX_TIME, MAX_TIME, wall_time=700))
    assert last.rows.num_rows == 0
    left = [output.counts.inputs["left"] for output in (first, second, third, last)]
    assert [(one.decided, one.matched, one.unmatched) for one in left] == [
        (0, 0, 0),
        (1, 0, 1),
        (0, 0, 0),
        (1, 1, 0),
    ]


def test_steps_report_the_least_carried_time_that_is_still_buffered() -> None:
    kind = schema((pa.string(),))
    source = MemorySource(kind)
    source.blocks[Side.LEFT][Position(0, 0)] = to_block([row(5, 10), row(2, 11), row(9, 30)], kind, 1)
    spec = JoinSpec(JoinType.LEFT, -3, 3, 1, OUTPUT, carried=((Side.LEFT, "id"), (Side.RIGHT, "id")))
    join = IntervalJoin(spec, source)
    first, last = two_sided([Position(0, 0)], [], 0, 0), two_sided([], [], MAX_TIME, MAX_TIME)
    counted = [join.step(step).counts.inputs for step in (first, two_sided([], [], 0, 15), last)]
    assert [inputs["left"].held for inputs in counted] == [{"id": 2}, {"id": 9}, {}]
    assert not any(inputs["right"].held for inputs in counted)
