"""One way to open whatever join a specification asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from braid.core.side import Side
from braid.kernels.blocks import BlockSource
from braid.kernels.join.interval import IntervalJoin
from braid.kernels.join.series import SeriesJoin
from braid.kernels.join.spec import AnySpec, JoinSpec
from braid.kernels.step import Output, Step


class ShardJoin(Protocol):
    """A join of one shard: steps in, rows out, and state that together with the log is all there is."""

    @property
    def pending(self) -> dict[Side, int]:
        """Rows per side that can still match."""

    def step(self, step: Step) -> Output:
        """Take one micro-batch."""

    def snapshot(self) -> bytes:
        """State as versioned bytes."""


def open_join(
    spec: AnySpec,
    source: BlockSource,
    state: bytes | None = None,
    losses: Mapping[Side, BlockSource | None] | None = None,
) -> ShardJoin:
    """The join of a shard, from its saved state or from the start; `losses` as for `IntervalJoin`."""
    if isinstance(spec, JoinSpec):
        return IntervalJoin(spec, source, state, losses)
    return SeriesJoin(spec, source, state)
