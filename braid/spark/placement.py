"""Where the state partitions of a query are: spread evenly over the executors that there are when it starts.

Spark runs a task of a stateful operator where its state was last. Where that is for the first time is left to
chance: while other queries keep an executor busy, several partitions begin, and then stay, on another one. So
Spark's own register of states is told where they are to be, before the first task asks for it.
"""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_DRIVER = "driver"


def executors(session: SparkSession) -> dict[str, str]:
    """Executors besides the driver, by their numbers: the hosts that they are on."""
    known = session.sparkContext._jsc.sc().statusStore().executorList(True)
    found = (known.apply(number) for number in range(known.size()))
    hosts = {str(one.id()): str(one.hostPort()).rpartition(":")[0] for one in found}
    return {
        name: hosts[name] for name in sorted(hosts, key=lambda name: (len(name), name)) if name != _DRIVER
    }


def spread(session: SparkSession, query: StreamingQuery, partitions: int) -> None:
    """Tell Spark which executor is to have which state partition of a query that has just been started.

    What it is told is a preference: a task that would have to wait for long runs elsewhere. The register is
    not public in Spark; where it is another one, places stay a matter of chance.
    """
    with suppress(Py4JError, TypeError):
        places = list(executors(session).items())
        if len(places) < 2:
            return
        jvm = session.sparkContext._jvm
        assert jvm is not None
        states = jvm.org.apache.spark.sql.execution.streaming.state
        register = query._jsq.sparkSession().sessionState().streamingQueryManager().stateStoreCoordinator()
        root = query._jsq.streamingQuery().checkpointFile("state")
        run = jvm.java.util.UUID.fromString(query.runId)
        nothing = jvm.org.apache.spark.api.python.PythonUtils.toSeq(jvm.java.util.ArrayList())
        for partition in range(partitions):
            executor, host = places[partition % len(places)]
            store = states.StateStoreId(root, 0, partition, states.StateStoreId.DEFAULT_STORE_NAME())
            register.reportActiveInstance(states.StateStoreProviderId(store, run), host, executor, nothing)
