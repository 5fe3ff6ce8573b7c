"""Figure 2 of the paper, row by row: a left row sees the right rows of its key in its own window."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from braid.core.columns import LIVE, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.kernels.join.interval import IntervalJoin
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode
from braid.kernels.join.step import two_sided
from tests.kernels.join.harness import OUTPUT, Case, MemorySource, schema, to_block


@dataclass(frozen=True)
class Event:
    id: int
    key: str
    minute: int


# Minutes after 11:50; windows reach 3 minutes either way.
LEFT = [Event(1, "green", 10), Event(2, "red", 9)]
RIGHT = [
    Event(11, "red", 11),
    Event(12, "green", 14),
    Event(13, "red", 8),
    Event(14, "green", 13),
    Event(15, "red", 5),
]


def blocks(events: list[Event]) -> list[list[dict[str, object]]]:
    return [[{"id": e.id, "__key0": e.key, TIME: e.minute, LIVE: True, "x": None}] for e in events]


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (MatchMode.ALL, {(1, 14), (2, 11), (2, 13)}),
        (MatchMode.FIRST, {(1, 14), (2, 11)}),
        (MatchMode.NEAREST, {(1, 14), (2, 13)}),
        (MatchMode.EARLIEST, {(1, 14), (2, 13)}),
        (MatchMode.LATEST, {(1, 14), (2, 11)}),
    ],
)
def test_each_left_row_has_its_own_window(match: MatchMode, expected: set[tuple[int, int]]) -> None:
    spec = JoinSpec(JoinType.LEFT, -3, 3, 1, OUTPUT, match)
    case = Case(spec, blocks(LEFT), blocks(RIGHT), (pa.string(),)).run()
    assert set(case.pairs) == expected


def test_a_row_is_padded_when_its_window_has_passed_and_not_before() -> None:
    kind = schema((pa.string(),))
    source = MemorySource(kind)
    source.blocks[Side.LEFT][Position(0, 0)] = to_block(blocks(LEFT)[0], kind, 1)
    join = IntervalJoin(JoinSpec(JoinType.LEFT, -3, 3, 1, OUTPUT), source)
    assert join.step(two_sided([Position(0, 0)], [], 10, 12)).rows.num_rows == 0
    assert join.step(two_sided([], [], 10, 13)).rows.num_rows == 0  # a right row at 13 may still come
    assert join.step(two_sided([], [], 10, 14)).rows.to_pylist() == [{"l": 1, "r": None}]
    assert join.step(two_sided([], [], 20, 20)).rows.num_rows == 0
