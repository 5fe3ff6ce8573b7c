"""An ordered stream's time is that of its newest record."""

from __future__ import annotations

from braid.config import AppConfig
from braid.eventtime.chunk import MIN_TIME, ChunkTimes
from braid.eventtime.ordered import Ordered
from braid.eventtime.pacing import PacingConfig
from braid.eventtime.propagated import Propagated


def chunk(number: int, low: int | None, high: int | None) -> ChunkTimes:
    return ChunkTimes(number, 0, 1, low, high, 0, b"", 0)


def test_follows_the_newest_record_and_never_goes_back() -> None:
    clock = Ordered().start()
    assert clock.stream_time == MIN_TIME
    for number, (low, high, expected) in enumerate([(1, 5, 5), (None, None, 5), (2, 4, 5), (5, 9, 9)]):
        clock.observe(chunk(number, low, high))
        clock = Ordered().restore(clock.snapshot())
        assert clock.stream_time == expected


def test_a_side_is_ordered_unless_it_carries_a_watermark() -> None:
    config = PacingConfig.of(AppConfig(), 0, propagated=["left"], ordered=["left", "right"])
    assert isinstance(config.left, Propagated)
    assert isinstance(config.right, Ordered)
