"""Watermarks of the commits that a stage writes: what it has read, held back by what it still buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
    kind: Literal["slicer"] = "slicer"

    def of(self, root: str, offset: Mapping[str, Any], counts: Counters) -> dict[str, int]:
        """The watermarks of the last commit that has been read whole, up to and with a micro-batch."""
        log = reader(root, self.source)
        following = ReadOffset.from_json(offset).next.commit
        if following <= log.first:
            return {}
        marks = log.commit(following - 1).watermarks
        return {column: marks[origin] for column, origin in self.columns if origin in marks}


@dataclass(frozen=True)
class OperatorWatermarks:
    """Watermarks of the event times in an operator's output.

    Parameters
    ----------
    inputs
        The categories that it reads, by the names of its inputs.
    bounds
        Of a join: its lower and upper bound. None for an operator that emits rows once stream time has
        passed them.
    columns
        What it writes, with the input and the column that it comes from, and how far that may lie before
        the input's event time.
    """

    inputs: Mapping[str, str]
    bounds: tuple[int, int] | None
    columns: tuple[tuple[str, str, str, int], ...]
    kind: Literal["operator"] = "operator"

    def of(self, root: str, offset: Mapping[str, Any], counts: Counters) -> dict[str, int]:
        """Each is the lesser of what came in with the last commit and of what waits in the operator.

        Of what waits, the shards have told the least value, or it follows from the stream times.
        """
        inputs = OperatorOffset.from_json(offset).at.inputs
        times = {name: one.stream_time for name, one in inputs.items()}
        if self.bounds is not None:
            held = output_watermarks(times[Side.LEFT], times[Side.RIGHT], *self.bounds)
            times = dict(zip(Side, held, strict=True))
        marks = {}
        for column, name, origin, lag in self.columns:
            mark = shift_time(times[name], -lag)
            if origin != TIME:
                came = self._incoming(root, name, inputs[name].position, origin)
                if came is None:
                    continue
                mark = min(came, max(mark, counts.input(name).held.get(origin, MAX_TIME)))
            marks[column] = mark
        return marks

    def _incoming(self, root: str, name: str, at: Position, column: str) -> int | None:
        """The watermark of the last commit of an input that has been admitted whole."""
        log = reader(root, self.inputs[name])
        number = at.commit
        if number >= log.first and at.chunk + 1 < len(log.commit(number).chunks):
            number -= 1
        return log.commit(number).watermarks.get(column) if number >= log.first else None


OutputWatermarks = SlicerWatermarks | OperatorWatermarks


def read_watermarks(value: Mapping[str, Any] | None) -> OutputWatermarks | None:
    """Read back what `dataclasses.asdict` gave, from JSON."""
    if value is None:
        return None
    columns = tuple(tuple(column) for column in value["columns"])
    if value["kind"] == "slicer":
        return SlicerWatermarks(value["source"], columns)
    bounds = value["bounds"]
    return OperatorWatermarks(value["inputs"], None if bounds is None else (bounds[0], bounds[1]), columns)
