"""Time bounds from every way to write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lang.programs import joined

MINUTE = 60_000_000
HOUR = 60 * MINUTE


@pytest.mark.parametrize(
    ("on", "lower", "upper"),
    [
        ("r.t BETWEEN l.t - INTERVAL '3 minutes' AND l.t + INTERVAL '3 minutes'", -3 * MINUTE, 3 * MINUTE),
        ("l.t BETWEEN r.t - INTERVAL '3 minutes' AND r.t + INTERVAL '1 minute'", -MINUTE, 3 * MINUTE),
        ("l.t = r.t", 0, 0),
        ("r.t - INTERVAL '1 minute' = l.t", MINUTE, MINUTE),
        ("r.t >= l.t AND r.t <= l.t + INTERVAL '1 hour'", 0, HOUR),
        ("r.t > l.t AND r.t < l.t + INTERVAL '1 hour'", 1, HOUR - 1),
        ("l.t < r.t AND l.t + INTERVAL '1 hour' > r.t", 1, HOUR - 1),
        ("r.t + INTERVAL '1 hour' >= l.t AND l.t >= r.t", -HOUR, 0),
        ("r.t - l.t <= INTERVAL '1 hour' AND r.t - l.t >= INTERVAL '1 minute'", MINUTE, HOUR),
        ("INTERVAL '1 hour' > r.t - l.t AND l.t <= r.t", 0, HOUR - 1),
        ("r.t - l.t BETWEEN -INTERVAL '1 minute' AND INTERVAL '1 minute'", -MINUTE, MINUTE),
        (
            "r.t BETWEEN l.t AND l.t + INTERVAL '1 hour' AND r.t <= l.t + INTERVAL '10 minutes'",
            0,
            10 * MINUTE,
        ),
        ("r.t BETWEEN (l.t) AND ((l.t + INTERVAL '1 hour') - INTERVAL '10 minutes')", 0, 50 * MINUTE),
        ("r.t BETWEEN l.t AND l.t + 3 * INTERVAL '1 minute'", 0, 3 * MINUTE),
        ("r.t BETWEEN l.t + INTERVAL '1 hour' AND l.t + INTERVAL '2 hours'", HOUR, 2 * HOUR),
        ("r.t BETWEEN l.t AND l.t + INTERVAL '1 hour 30 minutes'", 0, 90 * MINUTE),
        ("r.t BETWEEN l.t AND l.t + INTERVAL 1 HOUR", 0, HOUR),
        ("r.t BETWEEN l.t AND l.t + INTERVAL '0 01:30:00' DAY TO SECOND", 0, 90 * MINUTE),
        ("r.t BETWEEN l.t AND l.t + INTERVAL '90:30' MINUTE TO SECOND", 0, 90 * MINUTE + 30_000_000),
        ("r.t BETWEEN l.t AND l.t + INTERVAL '1.5 seconds'", 0, 1_500_000),
        ("r.t BETWEEN l.t AND l.t + INTERVAL '1 week'", 0, 7 * 24 * HOUR),
        ("r.t BETWEEN l.t AND l.t + INTERVAL '250 milliseconds'", 0, 250_000),
        ("r.t BETWEEN TIMESTAMP_SECONDS(l.n) AND TIMESTAMP_SECONDS(l.n) + INTERVAL '1 hour'", 0, HOUR),
        ("CAST(r.y AS TIMESTAMP) BETWEEN l.t AND l.t + INTERVAL '1 hour'", 0, HOUR),
    ],
)
def test_bounds(on, lower, upper):
    join = joined(on)
    assert (join.bounds.lower, join.bounds.upper) == (lower, upper)
    assert join.keys == ()
    assert join.residual == ()


def test_time_expressions_lose_their_offsets():
    bounds = joined("r.t + INTERVAL '1 hour' = TIMESTAMP_SECONDS(l.n) - INTERVAL '1 minute'").bounds
    assert (bounds.left.sql(), bounds.right.sql()) == ("TIMESTAMP_SECONDS(l.n)", "r.t")
    assert (bounds.lower, bounds.upper) == (-HOUR - MINUTE, -HOUR - MINUTE)


def test_a_second_pair_of_times_is_a_key_or_a_residual():
    join = joined("l.u = r.u AND r.t BETWEEN l.t AND l.t + INTERVAL '1 hour' AND r.u < l.t")
    assert [(key.left.sql(), key.right.sql()) for key in join.keys] == [("l.u", "r.u")]
    assert [c.expression.sql() for c in join.residual] == ["r.u < l.t"]
    assert (join.bounds.left.sql(), join.bounds.right.sql()) == ("l.t", "r.t")


def test_what_is_not_a_constant_bound_still_applies():
    join = joined(
        "r.t BETWEEN l.t AND l.t + INTERVAL '1 hour' AND r.t < l.t + l.n * INTERVAL '1 minute'"
        " AND r.t < l.t + INTERVAL '1 month' AND (r.t > l.t OR l.n > 1)"
    )
    assert (join.bounds.lower, join.bounds.upper) == (0, HOUR)
    assert len(join.residual) == 3


def test_half_of_a_between_keeps_the_whole():
    join = joined("r.t BETWEEN l.t AND l.t + l.n * INTERVAL '1 minute' AND r.t <= l.t + INTERVAL '1 hour'")
    assert (join.bounds.lower, join.bounds.upper) == (0, HOUR)
    assert [c.expression.key for c in join.residual] == ["between"]


@st.composite
def comparisons(draw):
    """A comparison of times in a random arrangement, and the bounds it means."""
    op = draw(st.sampled_from(["<", "<=", ">", ">=", "="]))
    offsets = {side: draw(st.lists(st.integers(-5, 5).filter(bool), max_size=2)) for side in "lr"}
    text = {}
    for side, minutes in offsets.items():
        text[side] = f"{side}.t"
        for number in minutes:
            text[side] = f"({text[side]} {'+' if number > 0 else '-'} INTERVAL '{abs(number)} minutes')"
    flipped = draw(st.booleans())
    left, right = ("r", "l") if flipped else ("l", "r")
    shift = (sum(offsets["l"]) - sum(offsets["r"])) * MINUTE
    if flipped:
        low, high = {">": (1, None), ">=": (0, None), "<": (None, -1), "<=": (None, 0), "=": (0, 0)}[op]
    else:
        low, high = {"<": (1, None), "<=": (0, None), ">": (None, -1), ">=": (None, 0), "=": (0, 0)}[op]
    shifted = tuple(None if bound is None else bound + shift for bound in (low, high))
    return f"{text[left]} {op} {text[right]}", shifted


@given(st.lists(comparisons(), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_any_arrangement_gives_the_tightest_bounds(parts):
    on = (
        " AND ".join(text for text, _ in parts)
        + " AND r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour'"
    )
    lower = max([-HOUR, *(low for _, (low, _) in parts if low is not None)])
    upper = min([HOUR, *(high for _, (_, high) in parts if high is not None)])
    if lower <= upper:
        bounds = joined(on).bounds
        assert (bounds.lower, bounds.upper) == (lower, upper)
