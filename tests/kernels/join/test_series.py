"""Time-series joins: the published example, and DuckDB's answer whatever the arrival."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings

from braid.core.columns import LIVE, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME
from braid.kernels.join.series import SeriesJoin
from braid.kernels.join.spec import JoinType, SeriesMode, SeriesSpec
from braid.kernels.join.step import two_sided
from tests.kernels.join.harness import (
    OUTPUT,
    Case,
    MemorySource,
    answer,
    first_by,
    same_key,
    schema,
    to_block,
)
from tests.kernels.join.strategies import series_cases


def expected(case: Case) -> Counter[tuple[object, object]]:
    """Window functions over all pairs of equal keys: who is whose last one before, or first one after."""
    spec = case.spec
    assert isinstance(spec, SeriesSpec)
    bound = "" if spec.within is None else f"WHERE abs(lt - rt) <= {spec.within}"
    every = (
        "SELECT l.id AS l, r.id AS r, l.__time AS lt, r.__time AS rt, l.arrival AS la, r.arrival AS ra "
        f"FROM left_rows l JOIN right_rows r ON {same_key(spec)} "
        "AND l.__time IS NOT NULL AND r.__time IS NOT NULL"
    )
    previous = f"SELECT * FROM e WHERE rt <= lt {first_by('l', 'rt DESC, ra DESC')}"
    following = f"SELECT * FROM e WHERE rt > lt {first_by('l', 'rt, ra')}"
    match spec.mode:
        case SeriesMode.PAIRS:
            queries = [
                previous,
                following,
                f"SELECT * FROM e WHERE lt <= rt {first_by('r', 'lt DESC, la DESC')}",
                f"SELECT * FROM e WHERE lt > rt {first_by('r', 'lt, la')}",
            ]
        case SeriesMode.SPARSE:
            back = f"SELECT * FROM e WHERE lt <= rt {first_by('r', 'lt DESC, la DESC')}"
            ahead = f"SELECT * FROM e WHERE lt > rt {first_by('r', 'lt, la')}"
            queries = [
                f"SELECT * FROM (({previous}) UNION ALL ({following})) {first_by('l', 'abs(lt - rt), rt')}",
                f"SELECT * FROM (({back}) UNION ALL ({ahead})) {first_by('r', 'abs(lt - rt), lt')}",
            ]
        case SeriesMode.PREVIOUS:
            queries = [previous.replace("<=", "<=" if spec.inclusive else "<")]
        case SeriesMode.NEXT:
            queries = [following.replace("rt > lt", "rt >= lt" if spec.inclusive else "rt > lt")]
        case SeriesMode.NEAREST:
            queries = [
                f"SELECT * FROM (({previous}) UNION ALL ({following})) {first_by('l', 'abs(lt - rt), rt')}"
            ]
    chosen = " UNION ".join(f"({query})" for query in queries)
    return answer(case, f"WITH e AS ({every}) SELECT l, r FROM ({chosen}) {bound}")


@given(series_cases())
@settings(max_examples=100)
def test_drained_output_is_what_window_functions_give(case: Case) -> None:
    assert case.run().pairs == expected(case)
    case.check_decided()


def test_the_published_example() -> None:
    """r and s alternate in fives, timestamps 0..19, no bound: 27 pairs, 23 of them certain before the end.

    The series are ordered, so stream time is the time of the last record.
    """
    kind = schema((pa.string(),))
    source = MemorySource(kind)
    join = SeriesJoin(SeriesSpec(JoinType.INNER, SeriesMode.PAIRS, 1, OUTPUT), source)
    times = {Side.LEFT: -1, Side.RIGHT: -1}
    certain: set[tuple[int, int]] = set()
    for time in range(20):
        side = Side.LEFT if time // 5 % 2 == 0 else Side.RIGHT
        block = Position(time, 0)
        row = {"id": time, TIME: time, LIVE: True, "__key0": "spindle", "x": None}
        source.blocks[side][block] = to_block([row], kind, 1)
        times[side] = time
        blocks = ([block], []) if side is Side.LEFT else ([], [block])
        out = join.step(two_sided(*blocks, times[Side.LEFT], times[Side.RIGHT]))
        join = SeriesJoin(SeriesSpec(JoinType.INNER, SeriesMode.PAIRS, 1, OUTPUT), source, join.snapshot())
        certain |= set(zip(out.rows["l"].to_pylist(), out.rows["r"].to_pylist(), strict=True))
    rest = join.step(two_sided([], [], MAX_TIME, MAX_TIME)).rows
    drained = set(zip(rest["l"].to_pylist(), rest["r"].to_pylist(), strict=True))
    assert certain == (
        {(r, 5) for r in range(5)}
        | {(4, s) for s in range(5, 10)}
        | {(10, s) for s in range(5, 10)}
        | {(r, 9) for r in range(10, 15)}
        | {(r, 15) for r in range(10, 15)}
    )
    assert len(certain) == 23
    assert drained == {(14, s) for s in range(16, 20)}


def certain_by(mode: SeriesMode, within: int, left: list[int], right: list[int], first: int) -> list[object]:
    """All pairs of records at given times, of which a first step makes certain what it can."""
    kind = schema((pa.string(),))
    source = MemorySource(kind)
    join = SeriesJoin(SeriesSpec(JoinType.INNER, mode, 1, OUTPUT, within=within), source)
    block = Position(0, 0)
    for side, times in ((Side.LEFT, left), (Side.RIGHT, right)):
        rows = [{"id": time, TIME: time, LIVE: True, "__key0": "a", "x": None} for time in times]
        source.blocks[side][block] = to_block(rows, kind, 1)
    outputs = [
        join.step(two_sided([block], [block], first, first)),
        join.step(two_sided([], [], MAX_TIME, MAX_TIME)),
    ]
    return sorted(
        pair for out in outputs for pair in zip(*(out.rows[n].to_pylist() for n in "lr"), strict=True)
    )


@pytest.mark.parametrize("mode", [SeriesMode.SPARSE, SeriesMode.NEAREST])
def test_a_record_that_waits_for_its_successor_keeps_its_predecessor(mode: SeriesMode) -> None:
    assert certain_by(mode, 3, [0, 3], [0], 5) == [(0, 0), (3, 0)]


def test_a_record_remembers_whom_it_has_chosen() -> None:
    """5 has chosen 4. Were that forgotten, 5 would seem to have chosen 9, which waits and will choose 5."""
    assert certain_by(SeriesMode.SPARSE, 6, [4, 9], [5], 10) == [(4, 5), (9, 5)]
