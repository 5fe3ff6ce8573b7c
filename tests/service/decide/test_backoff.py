from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from braid.home.service import Domain
from braid.service.decide.backoff import (
    LIMITS,
    Run,
    failures_in_a_row,
    is_crash_loop,
    next_start,
    recent_failures,
)


def failed(at: float, seconds: float = 1.0, domain: Domain | None = Domain.OUTSIDE) -> Run:
    return Run(at, at + seconds, True, domain)


def test_pauses_double_up_to_the_longest() -> None:
    runs: list[Run] = []
    pauses = []
    for number in range(12):
        runs.append(failed(1000.0 * number))
        at = next_start(runs, 0.5)
        assert at is not None
        pauses.append(at - (1000.0 * number + 1))
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]


def test_what_was_killed_out_of_the_blue_starts_at_once_but_not_again_and_again() -> None:
    assert next_start([failed(0, domain=None)], 0.5) == 1
    assert next_start([failed(0, domain=None), failed(2, domain=None)], 0.5) == 3 + 4


def test_a_program_that_is_wrong_is_not_started_again() -> None:
    assert next_start([failed(0, domain=Domain.USER)], 0.5) is None


def test_what_was_healthy_for_long_begins_anew() -> None:
    bad = [failed(number) for number in range(5)]
    long = failed(100, LIMITS.healthy)
    assert failures_in_a_row([*bad, long]) == 1
    assert failures_in_a_row([*bad, Run(50, 60), failed(70)]) == 1
    assert failures_in_a_row([]) == failures_in_a_row([*bad, Run(50, 60)]) == 0


def test_five_failures_within_half_an_hour_are_a_crash_loop() -> None:
    runs = [failed(300 * number) for number in range(5)]
    assert is_crash_loop(runs, 1300)
    assert not is_crash_loop(runs[:4], 1300)
    assert not is_crash_loop(runs, 1900)
    assert recent_failures(runs, 1900) == 4


@given(
    st.lists(st.tuples(st.floats(0.1, 2000), st.floats(0.1, 2000)), min_size=1, max_size=20),
    st.floats(0, 1),
)
def test_pauses_are_never_negative_and_bounded(times: list[tuple[float, float]], jitter: float) -> None:
    runs, now = [], 0.0
    for pause, seconds in times:
        now += pause
        runs.append(failed(now, seconds))
        now += seconds
    at = next_start(runs, jitter)
    assert at is not None
    assert now <= at <= now + 1.25 * LIMITS.longest_pause
