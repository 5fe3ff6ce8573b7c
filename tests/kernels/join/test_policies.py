"""One-to-one joins, and padding after a wall-clock wait."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.columns import LIVE, TIME
from braid.core.counters import merge
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME
from braid.kernels.join.interval import IntervalJoin
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode
from braid.kernels.join.step import two_sided
from braid.kernels.step import Output, Step
from tests.kernels.join.harness import OUTPUT, Case, MemorySource, expected, schema, to_block
from tests.kernels.join.strategies import cases
from tests.kernels.test_lost import check_padding, matched

Pair = tuple[int | None, int | None]
WAITS = st.sampled_from([0, 150, 500])


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


class Waiting:
    """A join of +-3 whose rows wait for 500 by the wall clock: steps one by one, with or without restarts."""

    def __init__(self, kind: JoinType, match: MatchMode, restarts: bool, *, consume: bool = False) -> None:
        self._kind = schema((pa.string(),))
        self._source = MemorySource(self._kind)
        self._spec = JoinSpec(kind, -3, 3, 1, OUTPUT, match, consume=consume, pad_after=500)
        self._join = IntervalJoin(self._spec, self._source)
        self._restarts = restarts
        self._outputs: list[Output] = []

    def block(self, side: Side, place: Position, **times: int) -> None:
        """Rows of a block, by name: `r11` is the row with id 11."""
        rows = [row(int(name[1:]), time) for name, time in times.items()]
        self._source.blocks[side][place] = to_block(rows, self._kind, 1)

    def step(self, step: Step) -> set[Pair]:
        """What a step emits."""
        self._outputs.append(self._join.step(step))
        if self._restarts:
            self._join = IntervalJoin(self._spec, self._source, self._join.snapshot())
        rows = self._outputs[-1].rows
        pairs = list(zip(rows["l"].to_pylist(), rows["r"].to_pylist(), strict=True))
        assert len(pairs) == len(set(pairs))
        return set(pairs)

    def check(self, emitted: list[set[Pair]], rows: dict[Side, int], missed: int) -> None:
        """Every row is decided once, as it has come out; matches that came too late are counted."""
        counts = merge(output.counts.cumulative() for output in self._outputs)
        for place, side in enumerate(Side):
            found = counts.input(side)
            partnered = len({pair[place] for some in emitted for pair in some if None not in pair})
            assert (found.decided, found.matched) == (rows[side], partnered)
            assert found.unmatched == rows[side] - partnered
            # All but the last step leave windows open.
            early = [pair for some in emitted[:-1] for pair in some if pair[1 - place] is None]
            assert found.padded_early == len(early)
        assert counts.matches_after_padding == missed


L1, L2, R11 = (1, None), (2, None), (None, 11)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("kind", "match", "waited", "closed", "missed"),
    [
        # With CONSUME, left rows choose when the window has closed: until then, all are unmatched.
        (JoinType.LEFT, MatchMode.FIRST, {L1, L2}, {(3, 11)}, 3),
        (JoinType.RIGHT, MatchMode.FIRST, {R11}, {(2, 12)}, 3),
        (JoinType.FULL, MatchMode.FIRST, {L1, L2, R11}, {(3, 12)}, 4),
        # The others have a best match so far.
        (JoinType.RIGHT, MatchMode.NEAREST, set(), {(1, 11), (2, 11), (3, 11), (None, 12)}, 0),
        (JoinType.FULL, MatchMode.NEAREST, set(), {(1, 11), (2, 11), (3, 11), (None, 12)}, 0),
        (JoinType.FULL, MatchMode.LATEST, set(), {(1, 11), (2, 12), (3, 12)}, 0),
    ],
)
def test_a_row_that_is_chosen_in_the_end_comes_out_either_padded_or_matched(
    kind: JoinType, match: MatchMode, waited: set[Pair], closed: set[Pair], missed: int, restarts: bool
) -> None:
    join = Waiting(kind, match, restarts, consume=match is MatchMode.FIRST)
    first, second = Position(0, 0), Position(0, 1)
    join.block(Side.LEFT, first, l1=10, l2=11)
    join.block(Side.RIGHT, first, r11=10)
    join.block(Side.LEFT, second, l3=12)
    join.block(Side.RIGHT, second, r12=14)
    emitted = [
        join.step(two_sided([first], [first], 0, 0, wall_time=400)),
        join.step(two_sided([], [], 0, 0, wall_time=500)),
        join.step(two_sided([second], [second], 0, 0, wall_time=550)),
        join.step(two_sided([], [], MAX_TIME, MAX_TIME, wall_time=560)),
    ]
    assert emitted == [set(), waited, set(), closed]
    join.check(emitted, {Side.LEFT: 3, Side.RIGHT: 2}, missed)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_right_row_that_is_no_longer_the_best_match_is_padded_at_once(restarts: bool) -> None:
    """Row 11 has waited for long enough when row 12 comes, which is nearer."""
    join = Waiting(JoinType.FULL, MatchMode.NEAREST, restarts)
    first, second = Position(0, 0), Position(0, 1)
    join.block(Side.LEFT, first, l1=10)
    join.block(Side.RIGHT, first, r11=12)
    join.block(Side.RIGHT, second, r12=11)
    emitted = [
        join.step(two_sided([first], [first], 0, 0, wall_time=400)),
        join.step(two_sided([], [], 0, 0, wall_time=500)),
        join.step(two_sided([], [second], 0, 0, wall_time=550)),
        join.step(two_sided([], [], 0, 0, wall_time=600)),
        join.step(two_sided([], [], MAX_TIME, MAX_TIME, wall_time=700)),
    ]
    assert emitted == [set(), set(), {R11}, set(), {(1, 12)}]
    join.check(emitted, {Side.LEFT: 1, Side.RIGHT: 2}, 0)


def wait(case: Case, length: int, consume: bool) -> Case:
    """The same join with a wait, and if it can with CONSUME."""
    consume = consume and case.spec.match is MatchMode.FIRST
    case.spec = dataclasses.replace(case.spec, pad_after=length, consume=consume)
    return case


@given(st.one_of(cases(late=frozenset(Side)), cases(caps=True)), WAITS, st.booleans())
@settings(max_examples=100)
def test_however_long_rows_wait_each_comes_out_either_padded_or_matched(
    case: Case, length: int, consume: bool
) -> None:
    wait(case, length, consume).run()
    assert set(case.pairs.values()) <= {1}
    check_padding(case)


@given(cases(), WAITS, st.booleans())
@settings(max_examples=100)
def test_however_long_rows_wait_missing_matches_are_counted(case: Case, length: int, consume: bool) -> None:
    wait(case, length, consume).run()
    check_padding(case)
    case.check_decided()
    counted = case.counts.matches_after_padding
    if not counted:
        assert case.pairs == (one_to_one(case) if case.spec.consume else expected(case))
    elif not case.spec.consume:
        inner = dataclasses.replace(case.spec, type=JoinType.INNER)
        missing = set(expected(dataclasses.replace(case, spec=inner))) - matched(case)
        assert len(missing) <= counted
        assert case.spec.match is not MatchMode.ALL or len(missing) == counted


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
