"""What a stateful operator is. Spark's workers and the simulation run whatever keeps to this.

An aggregation has one input, a join two, a processor any number: inputs have names. One shard of an operator
sees the rows of its inputs whose hash is in its range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from braid.kernels.blocks import BlockSource
from braid.kernels.step import Output, Step

INPUT = "input"
"""The name of the input of an operator that has one."""


class Operator(Protocol):
    """One shard: steps in, rows out, and state that together with the log is all there is."""

    def step(self, step: Step) -> Output:
        """Take one micro-batch."""

    def snapshot(self) -> bytes:
        """State as versioned bytes."""


class OperatorSpec(Protocol):
    """What an operator does: frozen, and the same for all shards."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its inputs."""

    @property
    def whole(self) -> str | None:
        """The input that every shard reads whole, whatever its range; None if all are split by hash."""

    @property
    def gone(self) -> int:
        """The flag of rows in its state that no longer matter: see `braid.kernels.recut`."""

    def columns(self, name: str) -> tuple[str, ...]:
        """The columns that it reads of an input; those that a category need not have come last."""

    def output_schema(self, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        """Names and types of what it emits, given those of its inputs."""

    def open(
        self,
        source: BlockSource,
        state: bytes | None = None,
        losses: Mapping[str, BlockSource | None] | None = None,
    ) -> Operator:
        """A shard, from its saved state or from the start.

        `losses` says where a late row of the input that is read whole looks for the matches that it has lost:
        one shard asks for all of them.
        """

    def after_drain(self, state: bytes) -> bytes:
        """The state of a shard that goes on after a drain, given what that has left."""
