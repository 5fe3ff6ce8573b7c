"""The Spark session that applications run in, with the settings that Braid needs."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from braid.core.errors import BraidError, RunError
from braid.core.threads import within
from braid.spark.checkpoints import RETAINED
from braid.spark.processes.executor_check import check_executors
from braid.spark.processes.java import ensure_java
from braid.spark.processes.jvm import Jvm, forget, launch
from braid.spark.processes.nursery import launcher
from braid.spark.processes.shipping import driver_environment, ship

JAVA = (
    "-XX:Tier4InvocationThreshold=200000 -XX:Tier4MinInvocationThreshold=24000 "
    "-XX:Tier4CompileThreshold=600000 -XX:Tier4BackEdgeThreshold=1600000 "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
"""Rows hardly pass through Java. At its defaults, the optimizing compiler takes more CPU time than a whole
small application (6.5 of 26 s from start to end, 1.4 of 8.6 when warm); so only what is forty times as hot is
worth its while: loops over rows that do pass, such as those that parse JSON."""
if (os.cpu_count() or 1) <= 4:
    # On few cores, G1's concurrent threads cost more than they save (a tenth of the start-up time on two). A
    # small young generation is enough for short-lived objects.
    JAVA += " -XX:+UseSerialGC -Xmn48m"

_PYTHON = {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Planners and workers start no helper threads for every core: Spark already runs one task per core. And they
give memory back once a micro-batch is done, where Arrow's own pool keeps it; the user's own settings win."""

LOCAL = "local[*,4]"
"""All cores of this machine; a task may fail three times, as on a cluster, before its query does."""

_FILLED_IN = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")
"""Variables of Python processes that Spark always fills in. It does so in a map that all queries share, while
others of them may be writing that map into tasks, which then cannot be read. It does no harm to values of
variables that are there already."""

_STATIC = {
    "spark.scheduler.mode": "FAIR",
    "spark.python.daemon.module": "braid.spark.processes.daemon",
    # Where it is known how many cores to expect, they are waited for: a join's state is laid out for them.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    # Else all state partitions would begin, and stay, on the executor that has made the references to a step.
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "braid-warehouse"),
}
"""Settings that only a new Spark application can take."""

_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Without version 2, Spark silently leaves out the checksums of state files.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.pollingDelay": "100ms",
    # One process writes a checkpoint, so nothing is to be won by the other manager, which starts half a dozen
    # processes for every file on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": str(RETAINED),
    # Whenever something is new, the driver gets all that Spark keeps, as JSON.
    "spark.sql.streaming.numRecentProgressUpdates": "32",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # One file per task: a chunk must not mix files, which may be hours apart in event time.
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.files.openCostInBytes": "64m",
}
"""Settings that a new session of an existing Spark application can take, too."""

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Further ones for queries whose rows do not pass through Java."""


def open_session(
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    home: Path | None = None,
    given_up: Callable[[], bool] = lambda: False,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> SparkSession:
    """A session that Braid's queries can run in.

    Parameters
    ----------
    spark
        An existing session, as in a notebook: a new session of the same Spark application is opened, so that
        the caller's own settings stay untouched.
    master
        Where to start Spark when there is no session yet; on all cores of this machine by default.
    settings
        Further Spark settings for a new application.
    log
        File for what Spark says; by default it says it where the process does.
    home
        Folder that executors will need: on a cluster it is tried whether they see it.
    given_up
        Asked when Spark has started, which takes seconds: if it is not wanted any more, it is stopped again.
    on_phase
        Called with what it waits for, on a cluster.
    """
    own = spark is None
    if spark is None:
        if master is not None and not is_local(master):
            # Spark waits for them, too, for half a minute, until it says that it has started.
            on_phase(f"starting Spark with executors of {master}")
        with _starting:
            spark = _start(master or LOCAL, settings or {}, log)
            if given_up():
                close_session(spark, _CLOSE_SECONDS)
                raise RunError("Spark is not wanted any more")
    context = spark.sparkContext
    context.environment = {**dict.fromkeys(_FILLED_IN, ""), **context.environment}
    session = spark.newSession()
    for name, value in _SESSION.items():
        session.conf.set(name, value)
    if not is_local(str(context.master)):
        try:
            ship(context)
            check_executors(context, home, on_phase)
        except BraidError:
            if own:
                context.stop()
            raise
    return session


def interpreted(session: SparkSession) -> SparkSession:
    """A session like another one, for queries that only pass references through Java, a few per micro-batch.

    Spark generates code for every micro-batch, since its clock is in it. That pays only for many rows.
    """
    other = session.newSession()
    for name, value in {**_SESSION, **_INTERPRETED}.items():
        other.conf.set(name, value)
    return other


def cloned(session: SparkSession) -> SparkSession:
    """A session with the settings, sources and sinks that another one has at this moment."""
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())


@contextmanager
def activated(session: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread: Spark finds the sinks that it knows only through that."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    active = jvm.org.apache.spark.sql.classic.SparkSession
    before = active.getActiveSession()
    active.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            active.setActiveSession(before.get())
        else:
            active.clearActiveSession()


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver, and so see its Python packages."""
    return master == "local" or master.startswith("local[")


def close_session(session: SparkSession, seconds: float) -> bool:
    """End the Spark application of a session; Java is killed if it does not answer in time.

    Returns whether it has ended by itself.
    """
    jvm = Jvm.of(session)
    if jvm.ended() is None:
        try:
            within(seconds, "stop Spark", session.sparkContext.stop)
            return True
        except (TimeoutError, Py4JError, OSError):
            warnings.filterwarnings("ignore", message="Unable to cleanly shutdown Spark JVM process")
            jvm.kill()
    forget()
    return False


_starting = threading.Lock()
"""Spark is started, and given up, by one application of a process at a time."""
_CLOSE_SECONDS = 10.0


def _start(master: str, settings: Mapping[str, str], log: Path | None) -> SparkSession:
    ensure_java()
    chosen = {
        "spark.master": master,
        "spark.app.name": "braid",
        "spark.driver.memory": "2g",
        **_STATIC,
        **settings,
    }
    environment = _local_environment(log) if is_local(master) else _cluster_environment(log)
    try:
        with _changed({**_own(_PYTHON), **environment}):
            launch(chosen, log)
            spark = SparkSession.builder.config(map=dict(chosen)).getOrCreate()
    except Exception as error:
        raise RunError(
            f"Spark did not start on {master!r}: {error}",
            hint="check the master's address, JAVA_HOME and the memory settings",
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    _spare_processes(spark)
    # It would show a traceback when Java is gone, which the application tells in words.
    spark.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    return spark


def _spare_processes(spark: SparkSession) -> None:
    """Write no checksum beside every local file: for each file that it makes, Hadoop starts a process.

    What matters has other ones: state files have Spark's, and blocks of the log their own.
    """
    context = spark.sparkContext
    jvm = context._jvm
    assert jvm is not None
    jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def _local_environment(log: Path | None) -> dict[str, str]:
    """Variables for a driver whose workers are processes of this machine; the user's own win."""
    chosen = {"SPARK_LOCAL_IP": "127.0.0.1"}
    if "PYSPARK_PYTHON" not in os.environ:
        chosen["PYSPARK_PYTHON"] = launcher(sys.executable, _own(_PYTHON), log)
    return _own(chosen)


def _cluster_environment(log: Path | None) -> dict[str, str]:
    """Variables for a driver whose workers are elsewhere: only what is started beside it has a nursery.

    The name of Python is the same for all machines. On the path of the driver, a launcher comes first.
    """
    chosen = driver_environment()
    if "PYSPARK_PYTHON" not in os.environ:
        command = launcher(sys.executable, _own(_PYTHON), log, name=chosen["PYSPARK_PYTHON"])
        chosen["PATH"] = os.pathsep.join([str(Path(command).parent), chosen["PATH"]])
    return chosen


def _own(chosen: Mapping[str, str]) -> dict[str, str]:
    """Variables as the user has set them, or else as chosen."""
    return {name: os.environ.get(name, value) for name, value in chosen.items()}


@contextmanager
def _changed(variables: Mapping[str, str]) -> Iterator[None]:
    """Let what is started meanwhile have variables, and this process have its own again afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
