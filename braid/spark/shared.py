"""A Spark that several applications of one process share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from braid.core.errors import RunError
from braid.home.paths import Home
from braid.spark.processes.jvm import Jvm
from braid.spark.processes.session import JAVA, close_session, open_session

_CLOSE_SECONDS = 10.0

_SETTINGS = {
    "spark.scheduler.mode": "FIFO",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": f"{JAVA} -Xmn160m",
}
"""Many small queries. First come, first served: among those that run nothing, the fair scheduler takes
the first by name, and those at the end of the alphabet starve where there is always something to do. Code
that is generated for each micro-batch of some hundred rows never pays for its compilation. A collection
looks at the stacks of hundreds of threads: it is better to have few of them."""


@dataclass(frozen=True)
class SharedSpark:
    """A Spark application, and the session that the others are made from."""

    session: SparkSession

    @classmethod
    def open(
        cls,
        home: Home,
        master: str | None,
        settings: Mapping[str, str],
        *,
        log: Path,
        on_phase: Callable[[str], None],
    ) -> SharedSpark:
        """Start Spark.

        Parameters
        ----------
        home
            What executors have to see.
        master, settings
            Where it runs, and further settings.
        log
            File for what Spark says.
        on_phase
            Called with what it waits for.
        """
        settings = {**_SETTINGS, **settings}
        session = open_session(master=master, settings=settings, log=log, home=home.root, on_phase=on_phase)
        return cls(session)

    def ended(self) -> RunError | None:
        """What to say of a Spark that is gone; None of one that is there."""
        return Jvm.of(self.session).ended()

    def close(self) -> None:
        """End it; applications have ended before."""
        close_session(self.session, _CLOSE_SECONDS)
