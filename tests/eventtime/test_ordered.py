"""The time of a stream whose disorder is declared is that of its newest record, less the disorder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.config import AppConfig
from braid.core.errors import ConfigError
from braid.core.side import Side
from braid.core.times import MIN_TIME
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.ordered import Ordered
from braid.eventtime.pacing.config import PacingConfig
from braid.eventtime.propagated import Propagated


def chunk(number: int, low: int | None, high: int | None) -> ChunkTimes:
    return ChunkTimes(number, 0, 1, low, high, 0, b"", 0)


@pytest.mark.parametrize("disorder", [0, 3])
def test_follows_the_newest_record_and_never_goes_back(disorder: int) -> None:
    clock = Ordered(disorder).start()
    assert clock.stream_time == MIN_TIME
    for number, (low, high, newest) in enumerate([(1, 5, 5), (None, None, 5), (2, 4, 5), (5, 9, 9)]):
        clock.observe(chunk(number, low, high))
        clock = Ordered(disorder).restore(clock.snapshot())
        assert clock.stream_time == newest - disorder


@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.integers(0, 200), min_size=1, max_size=80),
    disorder=st.integers(0, 40),
    delays=st.randoms(use_true_random=False),
    cuts=st.sets(st.integers(0, 80)),
)
def test_no_record_is_late_however_a_stream_is_cut(times, disorder, delays, cuts) -> None:
    arrival = [time + delays.randint(0, disorder) for time in sorted(times)]
    stream = np.array(sorted(times))[np.argsort(arrival, kind="stable")]
    bound = int((np.maximum.accumulate(stream) - stream).max())
    assert bound <= disorder
    clock = Ordered(bound).start()
    for number, rows in enumerate(np.split(stream, sorted(cuts))):
        if len(rows):
            assert rows.min() >= clock.stream_time
            clock.observe(chunk(number, int(rows.min()), int(rows.max())))
    assert clock.stream_time == stream.max() - bound


def test_the_bound_is_tight() -> None:
    stream = [0, 20, 0, 25, 5]
    for disorder, late in ((20, 0), (19, 2), (0, 2)):
        clock, found = Ordered(disorder).start(), 0
        for number, time in enumerate(stream):
            found += time < clock.stream_time
            clock.observe(chunk(number, time, time))
        assert found == late


def test_the_bound_of_a_side_is_what_is_declared_unless_it_carries_a_watermark() -> None:
    config = PacingConfig.of(AppConfig(), Side, 0, propagated=["left"], disorder={"left": 0, "right": 7})
    assert isinstance(config.estimators["left"], Propagated)
    assert config.estimators["right"] == Ordered(7)
    assert isinstance(
        PacingConfig.of(AppConfig(), Side, 0, disorder={"left": 0}).estimators["right"], Calibrated
    )


def test_a_bound_is_not_negative() -> None:
    with pytest.raises(ConfigError, match="disorder is -1"):
        Ordered(-1)
