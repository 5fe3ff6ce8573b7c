"""What a stateful operator is. Spark's workers and the simulation run whatever keeps to this.

An aggregation has one input, a join two, a processor any number: inputs have names. One shard of an operator
sees the rows of its inputs whose hash is in its range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from braid.core.columns import HASH, LIVE, TIME
from braid.core.side import Side
from braid.kernels.join.blocks import BlockSource
from braid.kernels.join.emit import output_schema
from braid.kernels.join.kernel import open_join
from braid.kernels.join.spec import AnySpec
from braid.kernels.step import Output, Step


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


@dataclass(frozen=True)
class JoinOperator:
    """A join of two inputs.

    Parameters
    ----------
    spec
        What is joined.
    broadcast
        Of a join without keys: the side that every shard reads whole.
    """

    spec: AnySpec
    broadcast: Side | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Left and right."""
        return tuple(Side)

    @property
    def whole(self) -> str | None:
        """The side that every shard reads whole."""
        return self.broadcast

    def columns(self, name: str) -> tuple[str, ...]:
        """Hash, time, and what the join reads of a side."""
        return tuple(dict.fromkeys((HASH, TIME, *self.spec.columns(Side(name)), LIVE)))

    def output_schema(self, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        """The columns that leave the kernel."""
        return output_schema(self.spec, {Side(name): schema for name, schema in schemas.items()})

    def open(
        self,
        source: BlockSource,
        state: bytes | None = None,
        losses: Mapping[str, BlockSource | None] | None = None,
    ) -> Operator:
        """The kernel of the join."""
        return open_join(self.spec, source, state, {Side(name): one for name, one in (losses or {}).items()})
