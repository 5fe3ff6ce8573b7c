"""Spark's register of states: which executor has which state partition of a query.

Spark runs a task of a stateful operator where its state was last, which executors tell the register whenever
they open a state. Who tells it something else moves the state with the next micro-batch. It is not public in
Spark, and used nowhere but here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_DRIVER = "driver"


class UnknownRegisterError(RuntimeError):
    """The register of states is another one than that of the Spark that this was written for."""


def executors(session: SparkSession) -> dict[str, str]:
    """Executors besides the driver, by their numbers: the hosts that they are on."""
    known = session.sparkContext._jsc.sc().statusStore().executorList(True)
    found = (known.apply(number) for number in range(known.size()))
    hosts = {str(one.id()): str(one.hostPort()).rpartition(":")[0] for one in found}
    return {
        name: hosts[name] for name in sorted(hosts, key=lambda name: (len(name), name)) if name != _DRIVER
    }


class Register:
    """What Spark's register says of a query that has been started.

    Parameters
    ----------
    session
        Of the Spark application.
    query, partitions
        The query, and how many state partitions it has.
    """

    def __init__(self, session: SparkSession, query: StreamingQuery, partitions: int) -> None:
        self._session = session
        self._query = query._jsq
        with _known():
            jvm = session.sparkContext._jvm
            assert jvm is not None
            states = jvm.org.apache.spark.sql.execution.streaming.state
            manager = query._jsq.sparkSession().sessionState().streamingQueryManager()
            root = query._jsq.streamingQuery().checkpointFile("state")
            run = jvm.java.util.UUID.fromString(query.runId)
            name = states.StateStoreId.DEFAULT_STORE_NAME()
            self._register = manager.stateStoreCoordinator()
            self._no_others = jvm.org.apache.spark.api.python.PythonUtils.toSeq(jvm.java.util.ArrayList())
            self._states = [
                states.StateStoreProviderId(states.StateStoreId(root, 0, partition, name), run)
                for partition in range(partitions)
            ]

    def places(self) -> list[str | None]:
        """The executor of each state partition; None of those that have none, as when the query has ended."""
        with _known():
            found = [str(self._register.getLocation(state).toString()) for state in self._states]
        # "Some(executor_<host>_<number>)" or "None"
        return [None if text == "None" else text.rstrip(")").rpartition("_")[2] for text in found]

    def batch(self) -> int:
        """The last micro-batch that Spark tells of; -1 if there is none."""
        with _known():
            last = self._query.lastProgress()
            return -1 if last is None else int(last.batchId())

    def move(self, places: Mapping[int, str]) -> None:
        """Tell which executors are to have state partitions from the next micro-batch on.

        It is a preference: a task that would have to wait for longer than `spark.locality.wait.process` for
        a core of its executor runs elsewhere, and its state stays there.
        """
        with _known():
            hosts = executors(self._session)
            for partition, executor in places.items():
                if executor in hosts:
                    state = self._states[partition]
                    self._register.reportActiveInstance(state, hosts[executor], executor, self._no_others)


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except (Py4JError, TypeError) as error:
        raise UnknownRegisterError(str(error).partition("\n")[0]) from error
