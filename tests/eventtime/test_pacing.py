import dataclasses
import itertools
import json
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.config import parse_options
from braid.core.errors import ConfigError, StateError
from braid.core.positions import START, Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, MIN_TIME, MINUTE, SECOND
from braid.eventtime import pacing
from braid.eventtime.ascending import Ascending
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.estimator import Estimator
from braid.eventtime.offset import Offset
from braid.eventtime.ordered import Ordered
from braid.eventtime.pacing import Decision, InputStatus, PacingConfig
from braid.eventtime.propagated import Propagated
from braid.testing.streams import MONDAY, chunk_of

BOUND = 10 * MINUTE
EXACT = Propagated()
START_OFFSET = Offset.start(Side, 0)


def next_offset(
    offset: Offset, left: Iterable[ChunkTimes], right: Iterable[ChunkTimes], *arguments, **more
) -> Decision:
    """What is admitted next of the two inputs of a join."""
    return pacing.next_offset(offset, {"left": left, "right": right}, *arguments, **more)


def stream(*minutes: float, rows: int = 100, start: int = 0) -> list[ChunkTimes]:
    """Chunks whose stream time is known exactly: one commit each, with a watermark."""
    return [
        chunk_of([MONDAY + int(m * MINUTE)] * rows, start + i, watermark=MONDAY + int(m * MINUTE))
        for i, m in enumerate(minutes)
    ]


def config(
    upper: int = BOUND, *, left: Estimator = EXACT, right: Estimator = EXACT, **options
) -> PacingConfig:
    defaults = {"slack": MINUTE}
    return PacingConfig({"left": left, "right": right}, upper, **{**defaults, **options})


def minutes(decision: Decision) -> tuple[float, float]:
    return tuple(
        (side.stream_time - MONDAY) / MINUTE for side in (decision.inputs["left"], decision.inputs["right"])
    )


def test_right_is_paused_when_it_is_ahead_of_the_window() -> None:
    left, right = stream(0), stream(*range(0, 30))
    found = next_offset(START_OFFSET, left, right, config(), now=0)
    assert minutes(found) == (0, 12)
    assert found.inputs["right"].status is InputStatus.PAUSED
    assert found.inputs["left"].status is InputStatus.WAITING
    assert (found.pause.input, found.pause.ahead) == ("right", 2 * MINUTE)
    assert found.pause.describe() == "right is paused: ahead of left by 120.0 s; left has nothing to read"


def test_left_is_paused_when_it_is_ahead_of_right() -> None:
    left, right = stream(*range(0, 30)), stream(20)
    found = next_offset(START_OFFSET, left, right, config(), now=0)
    assert minutes(found) == (22, 20)
    assert found.pause.input == "left"


@pytest.mark.parametrize("disorder", [0, 15, 100])
def test_left_waits_for_how_far_right_has_come_not_for_its_late_rows(disorder: int) -> None:
    left, right = stream(*range(0, 30)), stream(20)
    late = config(right=Ordered(disorder * MINUTE))
    found = next_offset(START_OFFSET, left, right, late, now=0)
    assert minutes(found) == (22, 20 - disorder)
    assert found.pause.ahead == 2 * MINUTE


@pytest.mark.parametrize("upper", [-90, -10, 0, 10, 90])
def test_streams_stay_together_whatever_the_sign_of_the_bound(upper: int) -> None:
    left, right = stream(*range(300)), stream(*range(-100, 400))
    offset, seen = START_OFFSET, 0
    while True:
        found = next_offset(offset, left, right, config(upper * MINUTE, batch_rows=500, max_growth=1), now=0)
        if found.offset == offset:
            break
        offset, seen = found.offset, seen + 1
        at_left, at_right = minutes(found)
        started = at_left > 0 and at_right > -100
        assert not started or abs(at_right - at_left - upper) <= 2
    assert seen > 50
    assert found.inputs["left"].upto.commit == 299 or found.inputs["right"].upto.commit == 499


def test_a_side_without_a_time_yet_is_waited_for() -> None:
    right = stream(*range(5))
    found = next_offset(START_OFFSET, [], right, config(), now=0)
    assert found.inputs["right"].chunks == 1
    assert found.pause.ahead is None
    assert found.inputs["left"].stream_time == MIN_TIME
    again = next_offset(found.offset, stream(0), right, config(), now=0)
    assert again.inputs["right"].upto == Position(4, 0)


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


def test_an_idle_stream_follows_and_its_time_never_goes_back() -> None:
    setup = config(idle_timeout=30 * SECOND)
    right = stream(*range(40))
    first = next_offset(START_OFFSET, stream(0), right, setup, now=0)
    assert first.inputs["left"].status is InputStatus.WAITING
    assert next_offset(first.offset, stream(0), right, setup, now=29 * SECOND).offset is first.offset
    idle = next_offset(first.offset, stream(0), right, setup, now=30 * SECOND)
    assert idle.inputs["left"].status is InputStatus.IDLE
    assert minutes(idle) == (29, 39)
    assert idle.pause is None
    woken = next_offset(idle.offset, stream(0, 5, 31), right, setup, now=40 * SECOND)
    assert (woken.inputs["left"].chunks, minutes(woken)) == (2, (31, 39))
    late = next_offset(idle.offset, stream(0, 5), right, setup, now=40 * SECOND)
    assert (late.inputs["left"].rows, minutes(late)) == (100, (29, 39))
    assert late.inputs["left"].status is InputStatus.WAITING


UPPERS = [-90, -10, 0, 10, 90]


@pytest.mark.parametrize("upper", UPPERS)
@pytest.mark.parametrize("silent", ["left", "right"])
def test_a_silent_stream_pauses_nobody_and_rows_wait_until_the_other_has_passed_their_window(
    silent: str, upper: int
) -> None:
    setup = config(upper * MINUTE, idle_timeout=30 * SECOND)
    sides = {"left": stream(0), "right": stream(upper)}
    offset = next_offset(START_OFFSET, *sides.values(), setup, now=0).offset
    (active,) = {*sides} - {silent}
    sides[active] = stream(*(at / 2 for at in range(2 * min(upper, 0), 600)))
    found = next_offset(offset, *sides.values(), setup, now=30 * SECOND)
    assert found.inputs[active].upto.commit == len(sides[active]) - 1
    assert (found.pause, found.inputs[silent].status) == (None, InputStatus.IDLE)
    words = "has been silent since 1970-01-01T00:00:00Z: rows wait until the other input has passed them"
    assert found.silence.describe() == f"{silent} {words}"
    left, right = minutes(found)
    level = (left, left + min(upper, 0)) if silent == "right" else (right - max(upper, 0), right)
    assert (left, right) == level


def test_a_silent_stream_is_level_with_the_other_one_only_after_a_while() -> None:
    setup = config(idle_timeout=30 * SECOND, slack=10 * MINUTE)
    left, right = stream(*range(40)), stream(0)
    first = next_offset(START_OFFSET, left[:11], right, setup, now=0)
    seen = []
    offset = first.offset
    for count in (13, 15, 20, 25, 40):
        found = next_offset(offset, left[:count], right, setup, now=30 * SECOND)
        seen.append(minutes(found))
        offset = found.offset
    assert minutes(first) == (10, 0)
    assert seen == [(12, 4), (14, 8), (19, 18), (24, 24), (39, 39)]


def test_a_stream_that_is_waited_for_holds_the_other_one_back_for_ever() -> None:
    setup = config(idle_timeout=30 * SECOND, waits=True)
    right = stream(*range(40))
    first = next_offset(START_OFFSET, stream(0), right, setup, now=0)
    assert first.silence is None
    found = next_offset(first.offset, stream(0), right, setup, now=10**12)
    assert found.offset is first.offset
    assert found.inputs["left"].status is InputStatus.IDLE
    assert found.pause.describe() == (
        "right is paused: ahead of left by 120.0 s; left is silent, and idle = 'wait'"
    )
    assert (found.silence.input, found.silence.since, found.silence.waited_for) == ("left", 0, True)
    assert found.silence.describe().endswith("all rows wait for it")
    back = next_offset(first.offset, stream(0, 20), right, setup, now=10**12 + 1)
    assert (minutes(back), back.silence) == ((20, 32), None)
    drained = next_offset(first.offset, stream(0), right, setup, now=10**12, draining=True)
    assert (drained.offset.drained, drained.silence) == (True, None)


def test_in_a_drain_rows_do_not_wait_for_an_input_that_has_ended() -> None:
    left = stream(*range(40))
    found = next_offset(START_OFFSET, left, stream(0), config(batch_rows=1_000), now=0, draining=True)
    assert minutes(found) == (8, 18)


def test_silence_from_before_the_process_started_does_not_count() -> None:
    started = 100 * SECOND
    offset = next_offset(START_OFFSET, stream(0), stream(*range(40)), config(), now=0).offset
    early = next_offset(
        offset, stream(0), stream(*range(40)), config(), now=started + SECOND, watching_since=started
    )
    assert early.inputs["left"].status is InputStatus.WAITING
    assert (
        next_offset(offset, stream(0), stream(*range(40)), config(), now=started).inputs["left"].stream_time
        > MONDAY
    )


def test_two_idle_streams_stay_where_they_are() -> None:
    offset = next_offset(START_OFFSET, stream(0), stream(1), config(), now=0).offset
    later = next_offset(offset, stream(0), stream(1), config(), now=10**15)
    assert later.offset is offset
    assert {later.inputs["left"].status, later.inputs["right"].status} == {InputStatus.IDLE}


def test_chunks_without_event_times_do_not_keep_a_stream_awake() -> None:
    setup = config(left=Calibrated(), idle_timeout=30 * SECOND)
    left = [chunk_of([], commit, nulls=10) for commit in range(50)]
    right = stream(*range(40))
    offset = START_OFFSET
    for second in range(50):
        found = next_offset(offset, left[: second + 1], right, setup, now=second * SECOND)
        offset = found.offset
    assert found.inputs["left"].upto == Position(49, 0)
    assert found.inputs["right"].upto == Position(39, 0)


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


def test_options_of_an_application() -> None:
    options = parse_options({"stream_time": "ascending", "percentile": 5, "slack": "2 minutes"})
    found = PacingConfig.of(options, Side, BOUND, propagated=["right"])
    assert (found.estimators["left"], found.estimators["right"], found.slack) == (
        Ascending(5),
        Propagated(),
        2 * MINUTE,
    )
    assert PacingConfig.of(parse_options({}), Side, BOUND).estimators["left"] == Calibrated(1.0)
    assert not PacingConfig.of(parse_options({}), Side, BOUND).waits
    assert PacingConfig.of(parse_options({"idle": "wait"}), Side, BOUND).waits
    for wrong in ({"slack": -1}, {"batch_rows": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            config(**wrong)


def test_offsets_are_small_plain_json_and_say_what_is_wrong_with_others() -> None:
    rng = np.random.default_rng(5)
    sides = [
        [chunk_of(MONDAY + i * MINUTE - rng.exponential(MINUTE, 500).astype(int), i) for i in range(400)]
        for _ in range(2)
    ]
    for estimator in (Calibrated(), Ascending()):
        setup = config(left=estimator, right=estimator)
        offset = next_offset(START_OFFSET, *sides, setup, now=0).offset
        text = offset.to_text()
        assert Offset.from_text(text) == offset
        assert len(text) < 1_500
    wrong = json.loads(text)
    for change in (
        {"version": 3},
        {"inputs": None},
        {"inputs": {"left": None}},
        {"drained": 1},
        {"growth": "x"},
    ):
        with pytest.raises(StateError):
            Offset.from_json({**wrong, **change})
    for junk in ("", "[]", "{}"):
        with pytest.raises(StateError, match="not an offset"):
            Offset.from_text(junk)


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


def test_inputs_that_need_not_wait_are_read_in_order_of_time() -> None:
    setup = PacingConfig({"a": EXACT, "b": EXACT, "c": EXACT}, batch_rows=250, max_growth=1)
    chunks = {"a": stream(0, 5, 60), "b": stream(1, 2), "c": []}
    offset, admitted = Offset.start(chunks, 0), []
    while (found := pacing.next_offset(offset, chunks, setup, now=0, draining=True)).offset is not offset:
        offset = found.offset
        admitted.append({name: one.chunks for name, one in found.inputs.items()})
    assert admitted == [{"a": 1, "b": 1, "c": 0}, {"a": 1, "b": 1, "c": 0}, {"a": 1, "b": 0, "c": 0}]
    assert offset.drained
    assert {one.stream_time for one in offset.inputs.values()} == {MAX_TIME}


def test_offsets_of_version_1_are_read() -> None:
    side = {"commit": 3, "chunk": 2, "stream_time": 7, "active": 9, "estimator": None}
    old = {"version": 1, "left": side, "right": {**side, "commit": 4}, "growth": 2, "drained": False}
    found = Offset.from_json(old)
    assert [one.position for one in found.inputs.values()] == [Position(3, 2), Position(4, 2)]
    assert Offset.from_json(found.to_json()) == found
