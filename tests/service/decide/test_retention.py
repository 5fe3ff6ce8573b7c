from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from braid.service.decide.backoff import Run, next_start
from braid.service.decide.retention import DAY, Kept, Started, before, superfluous
from braid.service.runs import KEPT_RUNS

NOW = 100 * DAY
starts = st.lists(
    st.tuples(st.floats(0, 100 * DAY), st.none() | st.floats(0, 5 * DAY)),
    max_size=80,
    unique_by=lambda one: one[0],
).map(
    lambda all_: [
        Started(str(number), at, None if length is None else at + length)
        for number, (at, length) in enumerate(all_)
    ]
)


def test_what_is_older_than_it_is_kept_may_go() -> None:
    found = before(Kept(events=30, audit=60, tokens=10), NOW)
    assert (found.events, found.audit, found.tokens) == (70 * DAY, 40 * DAY, 90 * DAY)


def test_a_start_goes_when_it_is_old_and_many_have_followed() -> None:
    old = [Started(f"old{number}", number * DAY, number * DAY + 1) for number in range(4)]
    kept = Kept(events=30, starts=2)
    assert superfluous(old, kept, NOW) == ["old1", "old0"]
    assert superfluous(old[2:], kept, NOW) == []
    new = [Started(f"new{number}", 90 * DAY + number, 91 * DAY) for number in range(4)]
    assert superfluous([*old, *new], kept, NOW) == ["old3", "old2", "old1", "old0"]
    assert superfluous([Started("open", 0, None), *new], kept, NOW) == []


@given(starts, st.integers(0, 60))
def test_the_last_ones_those_of_late_and_those_that_run_stay(given_: list[Started], number: int) -> None:
    gone = superfluous(given_, Kept(events=30, starts=number), NOW)
    left = [one for one in given_ if one.job not in gone]
    assert len(left) >= min(len(given_), number)
    for one in given_:
        if one.ended is None or one.ended >= 70 * DAY:
            assert one in left
        if one.job in gone:
            assert all(other in left for other in sorted(given_, key=lambda s: -s.at)[:number])


@given(st.lists(st.tuples(st.floats(1, 1000), st.booleans()), min_size=1, max_size=120))
def test_backoff_comes_to_the_same_with_what_is_left(lengths: list[tuple[float, bool]]) -> None:
    assert Kept().starts >= KEPT_RUNS
    at, found = 0.0, []
    for number, (length, failed) in enumerate(lengths):
        found.append((Started(str(number), at, at + length), Run(at, at + length, failed)))
        at += length
    gone = superfluous([start for start, _ in found], Kept(), at + 100 * DAY)
    left = [run for start, run in found if start.job not in gone]
    assert next_start(left[-KEPT_RUNS:], 0.5) == next_start([run for _, run in found][-KEPT_RUNS:], 0.5)
