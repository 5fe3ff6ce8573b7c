"""The order of the chunks of a commit, which tasks have written side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
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


class ChunkOrder(StrEnum):
    """How the chunks of a commit are put in order."""

    ARRIVAL = "arrival"
    """As they were written: tasks have read one category, piece after piece, so that is the order of arrival.
    Where disorder is bounded, no other order is as good: one row that breaks the promise moves no chunk."""
    BOUNDS = "bounds"
    """By their least and greatest time: the order of arrival is not known, but disorder is bounded."""
    MEDIAN = "median"
    """By their median time: nothing is known."""


def in_order(order: ChunkOrder, chunks: Sequence[Times]) -> list[int]:
    """Numbers of chunks in the order in which they are to be read."""
    if order is ChunkOrder.ARRIVAL:
        return list(range(len(chunks)))
    return by_bounds(chunks) if order is ChunkOrder.BOUNDS else by_median(chunks)


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
