"""Hazelcast's worked example of a three-way join, step by step, at its second join.

orders o JOIN deliveries d ON d.time BETWEEN o.time - 1 AND o.time + 3
         JOIN returns r    ON r.time BETWEEN d.time - 1 AND d.time + 4
"""

from __future__ import annotations

from dataclasses import dataclass, field

from braid.eventtime.chunk import MIN_TIME
from braid.eventtime.watermarks import TimeBound, Watermarks


@dataclass
class SecondJoin:
    """Just enough of a join to hold rows: what matters here is the bookkeeping."""

    marks: Watermarks = field(
        default_factory=lambda: Watermarks(("o", "d", "r"), (TimeBound("r", "d", 1), TimeBound("d", "r", 4)))
    )
    left: list[dict[str, int]] = field(default_factory=list)
    right: list[dict[str, int]] = field(default_factory=list)

    def watermark(self, column: str, value: int) -> dict[str, int]:
        self.marks.receive(column, value)
        for buffer in (self.left, self.right):
            buffer[:] = [row for row in buffer if all(row[c] >= self.marks.limit(c) for c in row)]
        rows = [*self.left, *self.right]
        return self.marks.emit({c: min(row[c] for row in rows if c in row) for row in rows for c in row})


def test_the_worked_example() -> None:
    join = SecondJoin()
    assert [join.marks.limit(c) for c in "odr"] == [MIN_TIME] * 3
    join.left += [{"o": 102, "d": 101}, {"o": 102, "d": 103}]
    # 103 would make the buffered orders late downstream; 102 does not.
    assert join.watermark("o", 103) == {"o": 102}
    join.right.append({"r": 100})
    # Nothing below 101 can match on the right any more, and 102 would make the first delivery late.
    assert join.watermark("d", 102) == {"d": 101}
    assert join.marks.limit("r") == 101
    assert join.right == []
    assert len(join.left) == 2
    # Deliveries below 106 can leave; then nothing is buffered, and all that was received goes out.
    assert join.watermark("r", 110) == {"o": 103, "d": 102, "r": 110}
    assert join.marks.limit("d") == 106
    assert join.left == []


def test_watermarks_never_go_back() -> None:
    join = SecondJoin()
    assert join.watermark("o", 10) == {"o": 10}
    assert join.watermark("o", 5) == {}
    join.left.append({"o": 7, "d": 7})
    assert join.watermark("o", 12) == {}
    assert join.watermark("r", 20) == {"o": 12, "r": 20}
