"""The decision itself: what to admit next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from braid.core.times import MAX_TIME, MIN_TIME
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.offset import Offset
from braid.eventtime.pacing.config import PacingConfig
from braid.eventtime.pacing.decision import Decision, InputStatus
from braid.eventtime.pacing.independent import Independent
from braid.eventtime.pacing.paced_input import Listening, PacedInput
from braid.eventtime.pacing.window import Window


def next_offset(
    offset: Offset,
    records: Mapping[str, Iterable[ChunkTimes]],
    config: PacingConfig,
    now: int,
    *,
    draining: bool = False,
    watching_since: int = MIN_TIME,
) -> Decision:
    """Decide what to admit next.

    Parameters
    ----------
    offset
        Where the operator stands.
    records
        Chunk records of each input in order, from just after its `needed`; read only as far as needed, so
        they may be generators over a long backlog.
    config
        How to pace.
    now
        The wall clock, in microseconds.
    draining
        The records given are all there will ever be: an input that is used up holds nothing back, and once
        all are, all stream times become `MAX_TIME`.
    watching_since
        When this process began to look at the inputs. Silence is not counted from before, so that after an
        outage an input is not taken for idle while its writer is still starting.
    """
    inputs = [
        PacedInput(name, offset.inputs[name], estimator, records[name], name in config.patient)
        for name, estimator in config.estimators.items()
    ]
    silence = Listening(draining, now - config.idle_timeout, watching_since)
    pace = Independent(inputs) if config.upper is None else Window(inputs, config, offset, silence)
    budget = config.batch_rows * offset.growth
    rows = 0
    limited = False
    while True:
        pace.follow()
        chosen = pace.choose()
        if chosen is None:
            break
        chunk = chosen.peek()
        assert chunk is not None
        if rows and rows + chunk.rows > budget:
            limited = True
            break
        rows += chunk.rows
        chosen.admit(now)
    drained = offset.drained
    if draining and all(one.peek() is None for one in inputs):
        drained = True
        for one in inputs:
            one.time = MAX_TIME
    growth = min(offset.growth * 2, config.max_growth) if limited else max(offset.growth // 2, 1)
    following = Offset({one.name: one.offset() for one in inputs}, growth, drained)
    unchanged = following.inputs == offset.inputs and drained == offset.drained
    statuses = {one.name: _status(one, pace, silence) for one in inputs}
    return Decision(
        offset if unchanged else following,
        {one.name: one.admission(statuses[one.name]) for one in inputs},
        pace.pause(statuses),
        limited,
        pace.silence(),
    )


def _status(one: PacedInput, pace: Independent | Window, silence: Listening) -> InputStatus:
    """What an input is doing."""
    if one.time == MAX_TIME:
        return InputStatus.ENDED
    if one.silent(silence):
        return InputStatus.IDLE
    if one.peek() is None:
        return InputStatus.WAITING
    return InputStatus.PAUSED if pace.paused(one) else InputStatus.RUNNING
