"""A join as an operator of two inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from braid.core.columns import HASH, LIVE, TIME
from braid.core.side import Side
from braid.kernels.blocks import BlockSource
from braid.kernels.join.buffer import GONE
from braid.kernels.join.emit import output_schema
from braid.kernels.join.kernel import open_join
from braid.kernels.join.spec import AnySpec
from braid.kernels.operator import Operator
from braid.kernels.state import after_drain


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

    @property
    def gone(self) -> int:
        """Rows that are decided."""
        return GONE

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

    def after_drain(self, state: bytes) -> bytes:
        """Empty windows; what has been decided is found in the log."""
        return after_drain(state)
