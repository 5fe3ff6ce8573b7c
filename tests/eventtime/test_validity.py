import numpy as np
import pyarrow as pa
import pytest

from braid.core.errors import SchemaError
from braid.eventtime.sketch import Distribution
from braid.eventtime.validity import Validity, classify, plausible_floor, valid_times, words_of

NOW = 1_704_067_200_000_000
WEEK = 7 * 86_400_000_000


def test_times_are_classified_against_the_wall_clock_given() -> None:
    times = pa.array([NOW, None, NOW + WEEK, NOW + WEEK + 1, 0, -(2**63), 2**63 - 1])
    kinds = classify(times, NOW, WEEK)
    assert [Validity(kind) for kind in kinds] == [
        Validity.VALID,
        Validity.NULL,
        Validity.VALID,
        Validity.FUTURE,
        Validity.VALID,
        Validity.RANGE,
        Validity.RANGE,
    ]
    assert valid_times(times, NOW, WEEK).to_pylist() == [NOW, None, NOW + WEEK, None, 0, None, None]
    words = [
        "valid",
        "missing or unreadable",
        "valid",
        "in the future",
        "valid",
        "too far off",
        "too far off",
    ]
    assert words_of(kinds).to_pylist() == words


def test_timestamps_of_any_unit_are_read_as_microseconds() -> None:
    for unit, factor in (("s", 10**6), ("ms", 10**3), ("us", 1)):
        times = pa.chunked_array([pa.array([NOW // factor, None], pa.timestamp(unit, "UTC"))])
        assert valid_times(times, NOW, 0).to_pylist() == [NOW, None]


def test_other_types_are_refused() -> None:
    with pytest.raises(SchemaError, match="not double"):
        classify(pa.array([1.5]), NOW, WEEK)


def test_no_rows() -> None:
    assert len(classify(pa.array([], pa.int64()), NOW, WEEK)) == 0
    assert len(words_of(np.array([], dtype=np.uint8))) == 0


def test_the_floor_of_belief_follows_the_median_or_what_is_known() -> None:
    times = Distribution.of(np.array([0, NOW - 1, NOW, NOW + 1], dtype=np.int64))
    assert plausible_floor(times, WEEK) == NOW - WEEK
    assert plausible_floor(Distribution.of(np.zeros(1, dtype=np.int64)), WEEK, NOW) == NOW - WEEK
