"""A Spark that several applications of one process share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from braid.core.errors import RunError
from braid.home.paths import Home
from braid.spark.processes.jvm import Jvm
from braid.spark.processes.session import close_session, open_session

_CLOSE_SECONDS = 10.0


@dataclass(frozen=True)
class SharedSpark:
    """A Spark application, and the session that the others are made from."""

    session: SparkSession

    @classmethod
    def open(cls, home: Home, master: str | None, settings: Mapping[str, str], *, log: Path) -> SharedSpark:
        """Start Spark.

        Parameters
        ----------
        home
            What executors have to see.
        master, settings
            Where it runs, and further settings.
        log
            File for what Spark says.
        """
        return cls(open_session(master=master, settings=settings, log=log, home=home.root))

    def ended(self) -> RunError | None:
        """What to say of a Spark that is gone; None of one that is there."""
        return Jvm.of(self.session).ended()

    def close(self) -> None:
        """End it; applications have ended before."""
        close_session(self.session, _CLOSE_SECONDS)
