"""Who waits for whom, and for how long if one of them is silent."""

import pytest

from braid.core.positions import Position
from braid.core.times import MIN_TIME, MINUTE, SECOND
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.ordered import Ordered
from braid.eventtime.pacing.decision import InputStatus
from braid.testing.streams import MONDAY, chunk_of
from tests.eventtime.pacing.two_inputs import START_OFFSET, config, minutes, next_offset, stream


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
