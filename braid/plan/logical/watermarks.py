"""Watermarks through all stages: each says which event times it passes on, and how far behind."""

from __future__ import annotations

from braid.plan.stages.base import Stage
from braid.plan.stages.event_times import EventTimes, Refuse


def with_watermarks(stages: list[Stage], refuse: Refuse) -> tuple[Stage, ...]:
    """The stages with the event times that they carry; they must be in order of dependency."""
    known: dict[str, EventTimes] = {}
    result: list[Stage] = []
    for stage in stages:
        stage, known[stage.sink.name] = stage.with_event_times(known, refuse)
        result.append(stage)
    return tuple(result)
