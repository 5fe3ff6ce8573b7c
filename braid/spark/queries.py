"""What is asked of a running query, whoever runs it: Spark, or the driver itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.errors import PySparkException


class Report(Protocol):
    """What is told of a micro-batch: batchId, timestamp, numInputRows, durationMs, sources, as Spark does."""

    def __getitem__(self, name: str, /) -> Any:
        """One of them."""


class Query(Protocol):
    """A query, by the names of Spark's `StreamingQuery`, which is one."""

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether it runs."""

    @property
    def status(self) -> Mapping[str, Any]:
        """`isTriggerActive`: whether a micro-batch is running."""

    @property
    def recentProgress(self) -> Sequence[Report]:  # noqa: N802
        """The last micro-batches."""

    @property
    def lastProgress(self) -> Report | None:  # noqa: N802
        """The last micro-batch."""

    def exception(self) -> PySparkException | None:
        """What it has failed with."""

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until what is there has been processed."""

    def awaitTermination(self) -> object:  # noqa: N802
        """Wait until it has ended; raise what it has failed with."""

    def stop(self) -> None:
        """End it after its micro-batch."""
