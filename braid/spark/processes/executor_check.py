"""Whether executors can do what they will be asked to: run Python, import the package, and see the home."""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext

from braid.core.errors import RunError
from braid.spark.processes.shipping import NEEDED_PYTHON, PYTHON

WAIT_SECONDS = 120
"""How long an application waits for its first executor."""
_POLL_SECONDS = 0.1


def check_executors(context: SparkContext, home: Path | None, on_phase: Callable[[str], None]) -> None:
    """Run a small job on executors; raise `RunError` with the reason if they cannot be used.

    Parameters
    ----------
    context
        A Spark application to which everything has been shipped.
    home
        A folder that executors must see and may write to.
    on_phase
        Called with what it waits for.
    """
    on_phase(f"waiting for executors of {context.master}")
    _wait(context)
    on_phase("trying what executors can do")
    mark = None if home is None else home / f".seen-{uuid.uuid4().hex[:8]}"
    if mark is not None:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    tasks = max(1, int(context.defaultParallelism))
    try:
        job = context.parallelize(range(tasks), tasks).map(partial(look, None if mark is None else str(mark)))
        found = job.collect()
    except Py4JError as error:
        raise explained(str(error), str(context.pythonExec)) from error
    finally:
        if mark is not None:
            mark.unlink(missing_ok=True)
    wrong = sorted({(what, host) for host, what in found if what})
    if wrong:
        hosts = ", ".join(dict.fromkeys(host for _, host in wrong))
        raise RunError(
            f"executors on {hosts} {wrong[0][0]} the home",
            where=str(home),
            hint="choose one with --home that is the same folder for the driver and all executors",
        )


def look(mark: str | None, task: int) -> tuple[str, str]:
    """The executor's host, and what it cannot do with the folder of a file; nothing if all is well."""
    host = socket.gethostname()
    if mark is None:
        return host, ""
    if not Path(mark).exists():
        return host, "do not see"
    return host, "" if os.access(Path(mark).parent, os.W_OK) else "may not write to"


def explained(failure: str, python: str) -> RunError:
    """What a user needs of the failure of the first job."""
    version = re.search(rf"{NEEDED_PYTHON}: (.*)", failure) or re.search(
        r"(Python in worker has different version: \S+ than that in driver: [\d.]*\d)", failure
    )
    if version is not None:
        return RunError(
            f"executors cannot run {python!r}: {version[1].strip()}",
            hint=f"set PYSPARK_PYTHON to a Python {PYTHON} that the driver and all executors have",
        )
    if "Cannot run program" in failure:
        return RunError(
            f"executors have no {python!r}",
            hint=f"install Python {PYTHON} there, or set PYSPARK_PYTHON to one that all machines have",
        )
    broken = re.findall(r"(?:ModuleNotFoundError|ImportError|OSError): .*", failure)
    if broken:
        return RunError(
            f"executors cannot import what they were sent: {broken[-1].strip()}",
            hint="they need the driver's operating system and processor, and a C library that is as new",
        )
    return RunError(f"executors cannot run Python: {failure.strip()}")


def _wait(context: SparkContext) -> None:
    """Wait for an executor, which the master may have to find a place for."""
    spark = context._jsc.sc()
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            # The list includes the driver.
            if spark.getExecutorMemoryStatus().size() > 1:
                return
        except Py4JError as error:
            raise RunError(
                f"Spark gave up {context.master!r}: {str(error).splitlines()[0]}",
                hint="check that the master runs there, and that this machine can reach it",
            ) from error
        if time.monotonic() > deadline:
            raise RunError(
                f"{context.master!r} gave no executor within {WAIT_SECONDS} seconds",
                hint="it needs a worker with enough free cores and memory; "
                "see --spark spark.cores.max=... and --spark spark.executor.memory=...",
            )
        time.sleep(_POLL_SECONDS)
