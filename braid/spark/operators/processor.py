"""The join as a stateful operator: references in, results out, one shard per state key.

Spark starts a process only to ask the operator for its state, on the way to the first micro-batch. So nothing
is imported here that only workers need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from braid.core.side import Side
from braid.kernels.join.spec import AnySpec
from braid.plan.stages import Projection

if TYPE_CHECKING:
    import pandas as pd

RESULTS = "data binary"
"""Schema of results: Arrow streams of a bounded number of rows, which `decode` opens."""
_STATE = "value binary"


@dataclass(frozen=True)
class Direct:
    """Where results go that need not pass through the JVM, and how their columns are computed."""

    category: str
    stage: str
    columns: tuple[Projection, ...]
    chunk_rows: int


@dataclass(frozen=True)
class JoinConfig:
    """What the operator needs to know.

    Parameters
    ----------
    root
        Root of the log.
    left, right
        Input categories.
    spec
        What to join.
    shards
        Number of shards.
    run
        Name of this run of the query: what a worker has in its cache from another one is not used.
    direct
        How a worker stores results itself; None if they need Catalyst.
    broadcast
        The side that every shard reads whole.
    """

    root: str
    left: str
    right: str
    spec: AnySpec
    shards: int
    run: str
    direct: Direct | None = None
    broadcast: Side | None = None


class JoinProcessor(StatefulProcessor):
    """Runs the kernel of a shard on the blocks that a reference names."""

    def __init__(self, config: JoinConfig) -> None:
        self._config = config

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: one binary value per shard."""
        self._state = handle.getValueState("join", _STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: object,
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """One micro-batch of one shard."""
        import pandas as pd

        from braid.spark.operators.join import Stepper

        stepper = Stepper(self._config, self._state)
        for frame in rows:
            yield pd.DataFrame({"data": list(stepper.run(frame))})

    def close(self) -> None:
        """Nothing to close: readers stay with the worker."""
