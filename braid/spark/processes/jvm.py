"""The Java process of a Spark application: its start, whether it lives, and its end by force."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from braid.core.errors import RunError


@dataclass(frozen=True)
class Jvm:
    """The Java process that a session talks to.

    Parameters
    ----------
    process
        None if another process has started it: then nothing is known of it, and it is left alone.
    """

    process: subprocess.Popen[bytes] | None

    @classmethod
    def of(cls, session: SparkSession) -> Jvm:
        """The process behind a session."""
        return cls(getattr(session.sparkContext._gateway, "proc", None))

    def ended(self, seconds: float = 0.0) -> RunError | None:
        """What to say of a process that is gone, or goes within some seconds; None of one that is there."""
        if self.process is None:
            return None
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return RunError(
            f"Spark's Java process {self.process.pid} {how}",
            hint="start the application again: it goes on from its checkpoints; spark.log in its folder may "
            "tell why, and `dmesg` whether the machine was out of memory",
        )

    def kill(self) -> None:
        """End it, with all that it has started, whatever it is doing."""
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                # It leads a group if it was started by `launch`.
                leads = os.getpgid(self.process.pid) == self.process.pid
                (os.killpg if leads else os.kill)(self.process.pid, signal.SIGKILL)
            self.process.wait()


def launch(settings: Mapping[str, str], log: Path | None) -> None:
    """Start Java for the Spark application that this process is going to start, unless it is there.

    It ends when its standard input does, and so with this process, however that ends. It ignores SIGTERM:
    every process gets that when a machine is shut down, and Java must be there until this one has ended well.

    Parameters
    ----------
    settings
        Of Spark, which Java is started with.
    log
        File for what it says; by default it says it where this process does.
    """
    if SparkContext._gateway is not None:
        return
    # A group of its own: an interrupt from the keyboard is for the driver, and it can be killed as a whole.
    how: dict[str, Any] = {"process_group": 0}
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    with ExitStack() as held:
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            how["stdout"] = how["stderr"] = held.enter_context(log.open("ab"))
        program = held.enter_context(_ignoring_sigterm(Path(_find_spark_home(), "bin", "spark-submit")))
        if program is not None:
            how["executable"] = str(program)
        gateway = launch_gateway(conf, how)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _ignoring_sigterm(program: Path) -> Iterator[Path | None]:
    """A command that becomes a program which SIGTERM does not end; None if there can be none.

    Java leaves a signal alone that is ignored when it starts. PySpark lets us choose which file is executed
    to start it, but not what is done in the new process before.
    """
    with tempfile.TemporaryDirectory(prefix="braid-java-") as folder:
        script = Path(folder, program.name)
        script.write_text(f"#!/bin/sh\ntrap '' TERM\nexec {shlex.quote(str(program))} \"$@\"\n")
        script.chmod(0o700)
        # No program may run in the folder for temporary files of some machines.
        yield script if os.access(script, os.X_OK) else None


def forget() -> None:
    """Forget a Java process that is gone, so that this process can start another one."""
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
