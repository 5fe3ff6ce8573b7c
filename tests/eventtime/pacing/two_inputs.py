"""The two inputs of a join, with stream times that are known exactly."""

from collections.abc import Iterable

from braid.core.side import Side
from braid.core.times import MINUTE
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.estimator import Estimator
from braid.eventtime.offset import Offset
from braid.eventtime.pacing import decide
from braid.eventtime.pacing.config import PacingConfig
from braid.eventtime.pacing.decision import Decision
from braid.eventtime.propagated import Propagated
from braid.testing.streams import MONDAY, chunk_of

BOUND = 10 * MINUTE
EXACT = Propagated()
START_OFFSET = Offset.start(Side, 0)


def next_offset(
    offset: Offset, left: Iterable[ChunkTimes], right: Iterable[ChunkTimes], *arguments, **more
) -> Decision:
    """What is admitted next of the two inputs of a join."""
    return decide.next_offset(offset, {"left": left, "right": right}, *arguments, **more)


def stream(*minutes: float, rows: int = 100, start: int = 0) -> list[ChunkTimes]:
    """Chunks whose stream time is known exactly: one commit each, with a watermark."""
    return [
        chunk_of([MONDAY + int(m * MINUTE)] * rows, start + i, watermark=MONDAY + int(m * MINUTE))
        for i, m in enumerate(minutes)
    ]


def config(
    upper: int = BOUND, *, left: Estimator = EXACT, right: Estimator = EXACT, **options
) -> PacingConfig:
    defaults = {"slack": MINUTE}
    return PacingConfig({"left": left, "right": right}, upper, **{**defaults, **options})


def minutes(decision: Decision) -> tuple[float, float]:
    return tuple(
        (side.stream_time - MONDAY) / MINUTE for side in (decision.inputs["left"], decision.inputs["right"])
    )
