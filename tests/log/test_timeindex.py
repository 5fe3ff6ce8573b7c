"""Chunks are found by time, without looking at a commit record twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from braid.log import Log
from braid.log.records import Chunk, Commit, TimeStats
from braid.log.timeindex import TimeIndex

SCHEMA = pa.schema([("__hash", pa.int64()), ("__time", pa.int64())])


def append(category, times: list[int | None]) -> int:
    return category.append(pa.table({"__hash": [0] * len(times), "__time": times}, SCHEMA), chunk_rows=2)


def test_finds_chunks_by_time_up_to_a_position_and_after_retention(tmp_path: Path) -> None:
    category = Log(tmp_path).create("c", SCHEMA)
    append(category, [1, 2, 30, 40])
    append(category, [5, None, None, None])
    append(category, [2, 3])
    reader = category.reader()
    assert reader.overlapping("__time", (2, 0), 2, 5) == [(0, 0), (1, 0), (2, 0)]
    assert reader.overlapping("__time", (1, 0), 2, 35) == [(0, 0), (0, 1), (1, 0)]
    assert reader.overlapping("__time", (0, 0), 30, 35) == []
    category.retain(2**62, needed_from=1)
    assert reader.overlapping("__time", (2, 0), 0, 100) == [(1, 0), (2, 0)]
    append(category, [7])
    assert reader.overlapping("__time", (3, 0), 6, 8) == [(3, 0)]


@given(st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=6), max_size=6), st.data())
def test_misses_no_row(commits: list[list[int]], data: st.DataObject) -> None:
    index = TimeIndex("t")
    index.extend(
        Commit(
            id=n,
            wall_time=0,
            rows=len(times),
            chunks=tuple(
                Chunk(index=i, rows=1, times={"t": TimeStats(time, time, 0, b"")}, blocks=())
                for i, time in enumerate(times)
            ),
            files={},
            watermarks={},
        )
        for n, times in enumerate(commits)
    )
    low = data.draw(st.integers(0, 20))
    high = data.draw(st.integers(low, 20))
    expected = [(n, i) for n, times in enumerate(commits) for i, t in enumerate(times) if low <= t <= high]
    assert index.overlapping((len(commits), 0), low, high) == expected
