"""Shards and state partitions of a stateful stage: which shard has which hashes, and where its state is."""

from __future__ import annotations

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
