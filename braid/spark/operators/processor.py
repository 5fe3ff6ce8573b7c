"""An operator on Spark: references to steps in, results out, one shard per state key.

Spark starts a process only to ask the operator for its state, on the way to the first micro-batch. So nothing
is imported here that only workers need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, ValueState

if TYPE_CHECKING:
    import pandas as pd

    from braid.engine.stepper import OperatorConfig

_NAME, _STATE = "join", "value binary"
"""Name and schema of the state; checkpoints know it by both."""


class StepProcessor(StatefulProcessor):
    """Takes the steps that references name."""

    def __init__(self, config: OperatorConfig) -> None:
        self._config = config

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: one binary value per shard."""
        self._state = SparkState(handle.getValueState(_NAME, _STATE))

    def handleInputRows(  # noqa: N802
        self,
        key: object,
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """One micro-batch of one shard."""
        import pandas as pd

        from braid.engine.stepper import Stepper
        from braid.spark.blobs import encode

        stepper = Stepper(self._config, self._state)
        for frame in rows:
            for shard, step in zip(frame["shard"], frame["step"], strict=True):
                yield pd.DataFrame({"data": [encode(batch) for batch in stepper.step(int(shard), step)]})

    def close(self) -> None:
        """Nothing to close: readers stay with the worker."""


class SparkState:
    """The state of a shard in Spark's state store: a `StateCell` of the engine."""

    def __init__(self, state: ValueState) -> None:
        self._state = state

    def get(self) -> bytes | None:
        """What was put last."""
        stored = self._state.get()
        return None if stored is None else bytes(stored[0])

    def put(self, value: bytes) -> None:
        """Keep a value instead."""
        self._state.update((value,))
