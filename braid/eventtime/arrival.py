"""The order of chunks that were written side by side, so that nobody knows in which order they arrived."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from braid.eventtime.sketch import Distribution


class Times(Protocol):
    """Event times of a chunk; bounds are None when there are none."""

    @property
    def min(self) -> int | None:
        """The least."""

    @property
    def max(self) -> int | None:
        """The greatest."""

    @property
    def sketch(self) -> bytes:
        """A serialised sketch of all."""


def by_median(chunks: Sequence[Times]) -> list[int]:
    """Numbers of chunks by their median event time, which a few clocks that are wrong do not move."""

    def middle(number: int) -> float:
        times = Distribution.from_bytes(chunks[number].sketch)
        return times.quantile(0.5) if times.count else -math.inf

    return sorted(range(len(chunks)), key=middle)


def by_bounds(chunks: Sequence[Times]) -> list[int]:
    """Numbers of chunks of a stream whose disorder is bounded, in an order in which it keeps to the bound.

    A chunk may come before another one if its greatest time is ahead of the other's least by no more than
    the bound. Of any two chunks of which one arrived after the other, that holds for the order of arrival.
    It holds for the order by least plus greatest time as well, by which the first is ahead of the second by
    no more than the second would be ahead of the first.
    """

    def middle(number: int) -> float:
        low, high = chunks[number].min, chunks[number].max
        return -math.inf if low is None or high is None else low + high

    return sorted(range(len(chunks)), key=middle)
