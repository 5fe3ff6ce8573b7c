import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.errors import ConfigError, StateError
from braid.core.positions import START
from braid.core.times import DAY, MIN_TIME, MINUTE, SECOND
from braid.eventtime.ascending import Ascending, AscendingClock, Mean
from braid.eventtime.chunk import ChunkTimes
from braid.testing.streams import chunk_of

FIGURE_7 = (2, 3, 1, 2, 4, 1, 3, 5, 3, 4, 7, 5, 6, 4, 8, 7)
BASE = 1_704_067_200 * SECOND


def feed(clock: AscendingClock, *values: int) -> AscendingClock:
    for commit, value in enumerate(values):
        clock.observe(chunk_of([value], commit))
    return clock


def test_figure_7() -> None:
    clock = feed(Ascending(max_window=4, statistic=Mean()).start(), *(v * SECOND for v in FIGURE_7))
    assert [v / SECOND for v in clock.values(1)] == [6, 4, 8, 7]
    assert [v / SECOND for v in clock.values(2)] == [3.5, 6, 5, 7.5]
    assert [v / SECOND for v in clock.values(4)] == [2, 3.25, 4.75, 6.25]
    assert clock.window == 4
    assert clock.stream_time == 6_250_000


def test_an_ordered_stream_needs_windows_of_one_chunk() -> None:
    clock = feed(Ascending().start(), 10, 20, 30)
    assert clock.stream_time == MIN_TIME
    clock.observe(chunk_of([40], 3))
    assert (clock.stream_time, clock.window) == (40, 1)


def test_equal_values_do_not_ascend() -> None:
    assert feed(Ascending(max_window=1).start(), 10, 10, 10, 10).stream_time == MIN_TIME


def test_stream_time_never_goes_back_and_windows_are_bounded() -> None:
    clock = feed(Ascending(max_window=2).start(), *range(100, 110), *range(99, 0, -1))
    assert clock.stream_time == 109
    assert len(clock.values(2)) == 4


def test_percentile_counts_rows_over_a_window() -> None:
    clock = Ascending(percentile=10, windows=2, max_window=1).start()
    for commit in range(2):
        clock.observe(chunk_of(BASE + commit * 1_000 + np.arange(100), commit))
    assert clock.stream_time == BASE + 1_010


def test_clocks_that_were_never_set_do_not_hold_it_back() -> None:
    clock = Ascending().start()
    for commit in range(8):
        times = BASE + commit * MINUTE + np.arange(100)
        times[:5] = 0
        clock.observe(chunk_of(times, commit))
    assert clock.stream_time > BASE + 6 * MINUTE
    assert clock.stream_time < BASE + DAY


def test_chunks_without_times_do_not_count() -> None:
    clock = feed(Ascending().start(), 1, 2, 3)
    clock.observe(chunk_of([], 3, nulls=5))
    assert clock.stream_time == MIN_TIME
    clock.observe(chunk_of([4], 4))
    assert clock.stream_time == 4


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=60), st.sets(st.integers(0, 60)), st.sampled_from([1, 2, 8]))
def test_restored_anywhere_it_goes_the_same_way(values: list[int], cuts: set[int], size: int) -> None:
    config = Ascending(windows=3, max_window=size, statistic=Mean())
    chunks = [chunk_of([value + i], i) for i, value in enumerate(values)]
    plain, restored = config.start(), config.start()
    for i, chunk in enumerate(chunks):
        if i in cuts:
            restored = _restart(config, restored, chunks[:i])
        plain.observe(chunk)
        restored.observe(chunk)
        assert restored.snapshot() == plain.snapshot()
    assert restored.values(size) == plain.values(size)


def _restart(config: Ascending, clock: AscendingClock, admitted: list[ChunkTimes]) -> AscendingClock:
    back = config.restore(clock.snapshot())
    since = back.since or START
    needed = [chunk for chunk in admitted if chunk.position > since]
    assert len(needed) <= (config.windows + 1) * config.max_window
    for chunk in needed:
        back.recall(chunk)
    return back


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in ({"percentile": 0}, {"windows": 1}, {"max_window": 3}):
        with pytest.raises(ConfigError):
            Ascending(**wrong)
    with pytest.raises(StateError, match="'seen' is None"):
        Ascending().restore({"kind": "ascending", "time": 1})
