"""Shards and state partitions of a stateful stage: which shard has which hashes, and where its state is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from braid.core.hashes import HashRange
from braid.log.layout import shard_range


@dataclass(frozen=True)
class Layout:
    """How the work of a stateful stage is divided.

    Parameters
    ----------
    ranges
        The hashes of each shard. Blocks may be cut otherwise: a shard reads ranges of hashes from any block.
    partitions
        Spark's state partitions, which shards are spread over evenly.
    """

    ranges: tuple[HashRange, ...]
    partitions: int

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self.ranges)


def layout(shards: int, partitions: int) -> Layout:
    """Equal ranges of hashes."""
    return Layout(tuple(shard_range(shard, shards) for shard in range(shards)), partitions)


def first_layout(shards: int, executors: int) -> Layout:
    """The layout of a stage that has no state yet: no more partitions than shards or executors."""
    return layout(shards, min(shards, max(1, executors)))


def spread(places: Sequence[str | None], executors: Sequence[str]) -> list[str]:
    """Executors that state partitions are to be on: as even as can be, and as many as can be where they are.

    Parameters
    ----------
    places
        Where each is now; None if nowhere.
    executors
        At least one, in the order in which they are preferred.
    """
    held = Counter(places)
    few, more = divmod(len(places), len(executors))
    # Those that have most keep most.
    ranked = sorted(executors, key=lambda one: -held[one])
    room = {one: few + (rank < more) for rank, one in enumerate(ranked)}
    found: list[str | None] = []
    for place in places:
        stays = place is not None and room.get(place, 0) > 0
        if stays:
            room[str(place)] -= 1
        found.append(place if stays else None)
    free = iter([one for turn in range(few + 1) for one in executors if room[one] > turn])
    return [next(free) if place is None else place for place in found]
