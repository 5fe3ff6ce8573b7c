from hypothesis import given
from hypothesis import strategies as st

from braid.core.times import MAX_TIME, MIN_TIME
from braid.eventtime.propagated import Propagated, output_watermarks
from braid.testing.streams import chunk_of


def test_stream_time_is_the_watermark_of_the_last_whole_commit() -> None:
    clock = Propagated().start()
    clock.observe(chunk_of([5, 6], 0, 0, watermark=100, last=False))
    assert clock.stream_time == MIN_TIME
    clock.observe(chunk_of([7], 0, 1, watermark=100, last=True))
    assert clock.stream_time == 100
    clock.observe(chunk_of([], 1, -1, watermark=120))
    clock.observe(chunk_of([9], 2))
    clock.observe(chunk_of([9], 3, watermark=90))
    assert Propagated().restore(clock.snapshot()).stream_time == 120


def test_watermarks_of_a_join_that_has_not_begun_or_has_ended() -> None:
    assert output_watermarks(MIN_TIME, 500, -10, 10) == (MIN_TIME, MIN_TIME)
    assert output_watermarks(MAX_TIME, MAX_TIME, -10, 10) == (MAX_TIME, MAX_TIME)
    assert output_watermarks(MAX_TIME, 500, -10, 10) == (490, 480)


times = st.integers(-50, 50)


@given(times, times, st.integers(-20, 20), st.integers(0, 20), times, times)
def test_nothing_comes_out_below_the_watermarks(
    left_time: int, right_time: int, lower: int, width: int, left: int, right: int
) -> None:
    upper = lower + width
    low_left, low_right = output_watermarks(left_time, right_time, lower, upper)
    pending_or_new_left = left + upper >= right_time or left >= left_time
    if pending_or_new_left:
        assert left >= low_left
        if left + lower <= right <= left + upper:
            assert right >= low_right
    padded_right = right - lower >= left_time or right >= right_time
    if padded_right:
        assert right >= low_right
