import numpy as np

from braid.eventtime.ascending import Ascending, Mean
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.sketch import sketch_bytes

FIGURE_7 = (2, 3, 1, 2, 4, 1, 3, 5, 3, 4, 7, 5, 6, 4, 8, 7)


def chunk_of(commit: int, *times: int, chunk: int = 0) -> ChunkTimes:
    array = np.array(times, dtype=np.int64)
    low, high = (min(times), max(times)) if times else (None, None)
    return ChunkTimes(commit, chunk, len(times), low, high, 0, sketch_bytes(array), commit)


def test_figure_7() -> None:
    scale = 1_000_000
    clock = Ascending(windows=4, max_window=4, statistic=Mean()).start()
    for commit, value in enumerate(FIGURE_7):
        clock.observe(chunk_of(commit, value * scale))
    assert [v / scale for v in clock.values(1)] == [6, 4, 8, 7]
    assert [v / scale for v in clock.values(2)] == [3.5, 6, 5, 7.5]
    assert [v / scale for v in clock.values(4)] == [2, 3.25, 4.75, 6.25]
    assert clock.window == 4
    assert clock.stream_time == 6_250_000
