"""Watermarks of the commits that a stage writes: what it has read, held back by what it still buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from braid.core.columns import TIME
from braid.core.counters import Counters
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, shift_time
from braid.engine.offsets import OperatorOffset, ReadOffset
from braid.eventtime.propagated import output_watermarks
from braid.log.shared import reader


@dataclass(frozen=True)
class SlicerWatermarks:
    """Watermarks that a slicer passes on.

    Parameters
    ----------
    source
        The category that it reads.
    columns
        What it writes, with the column of the source whose watermark holds for it.
    """

    source: str
    columns: tuple[tuple[str, str], ...]

    def of(self, root: str, offset: Mapping[str, Any], counts: Counters) -> dict[str, int]:
        """The watermarks of the last commit that has been read whole, up to and with a micro-batch."""
        log = reader(root, self.source)
        following = ReadOffset.from_json(offset).next.commit
        if following <= log.first:
            return {}
        marks = log.commit(following - 1).watermarks
        return {column: marks[origin] for column, origin in self.columns if origin in marks}


@dataclass(frozen=True)
class JoinWatermarks:
    """Watermarks of the event times in a join's output.

    Parameters
    ----------
    left, right
        The categories that it reads.
    bounds
        Its lower and upper bound.
    columns
        What it writes, with the side and the column that it comes from, and how far that may lie before
        the side's event time.
    """

    left: str
    right: str
    bounds: tuple[int, int]
    columns: tuple[tuple[str, str, str, int], ...]

    def of(self, root: str, offset: Mapping[str, Any], counts: Counters) -> dict[str, int]:
        """Each is the lesser of what came in with the last commit and of what waits in the join.

        Of what waits, the shards have told the least value, or it follows from the stream times.
        """
        inputs = OperatorOffset.from_json(offset).at.inputs
        left, right = (inputs[side].stream_time for side in Side)
        times = dict(zip(Side, output_watermarks(left, right, *self.bounds), strict=True))
        marks = {}
        for column, side, origin, lag in self.columns:
            mark = shift_time(times[Side(side)], -lag)
            if origin != TIME:
                came = self._incoming(root, side, inputs[side].position, origin)
                if came is None:
                    continue
                mark = min(came, max(mark, counts.input(side).held.get(origin, MAX_TIME)))
            marks[column] = mark
        return marks

    def _incoming(self, root: str, side: str, at: Position, column: str) -> int | None:
        """The watermark of the last commit of a side that has been admitted whole."""
        log = reader(root, self.left if side == Side.LEFT else self.right)
        number = at.commit
        if number >= log.first and at.chunk + 1 < len(log.commit(number).chunks):
            number -= 1
        return log.commit(number).watermarks.get(column) if number >= log.first else None


OutputWatermarks = SlicerWatermarks | JoinWatermarks


def read_watermarks(value: Mapping[str, Any] | None) -> OutputWatermarks | None:
    """Read back what `dataclasses.asdict` gave, from JSON."""
    if value is None:
        return None
    columns = tuple(tuple(column) for column in value["columns"])
    if "source" in value:
        return SlicerWatermarks(value["source"], columns)
    return JoinWatermarks(value["left"], value["right"], tuple(value["bounds"]), columns)
