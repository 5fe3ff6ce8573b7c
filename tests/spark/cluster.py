"""A standalone cluster of Spark on this machine: a master, and workers that can be killed and added.

Every wait is bounded, and nothing is left running when the cluster is closed. `CannotStartError` says why
there can be none.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs on one machine that do not live long enough to be compiled well."""
SERVER = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
"""Port 0: each takes a free one itself, and says which."""
START_SECONDS = 60.0
END_SECONDS = 20.0
_EXECUTOR = "CoarseGrainedExecutorBackend"
_POLL_SECONDS = 0.05


class CannotStartError(RuntimeError):
    """There can be no cluster here."""


class Cluster:
    """A master and its workers, each with executors of one core.

    Parameters
    ----------
    folder
        An empty one, for logs and for working directories of executors.
    cores, memory
        Of each worker.
    path
        Where workers look for Python and whatever else they start; by default as this process does.
    """

    def __init__(
        self, folder: Path, *, cores: int = 1, memory: str = "768m", path: str | None = None
    ) -> None:
        self.folder = folder
        self._limits = ("--cores", str(cores), "--memory", memory)
        self._path = path or os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._processes: list[subprocess.Popen[bytes]] = []
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._started = 0
        process, log = self._launch("master", "master.Master", *SERVER)
        self.master = _said(process, log, "Starting Spark master at ").strip()
        """Its address, for applications."""

    @property
    def work(self) -> Path:
        """The folder in which every executor has one of its own."""
        return self.folder / "work"

    @property
    def workers(self) -> list[int]:
        """Workers that have not been killed."""
        return list(self._workers)

    def settings(self, **more: str) -> dict[str, str]:
        """Settings of an application that is to be small; names have `_` for `.` in `more`."""
        return {
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "768m",
            "spark.sql.codegen.wholeStage": "false",
            "spark.executor.extraJavaOptions": QUICK,
            "spark.driver.extraJavaOptions": QUICK,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def arguments(self, **more: str) -> list[str]:
        """The same for `braid run`, with where the master is."""
        found = ["--master", self.master]
        for name, value in self.settings(**more).items():
            found += ["--spark", f"{name}={value}"]
        return found

    def environment(self, cache: Path | None = None) -> dict[str, str]:
        """Variables of an application's driver, and where it keeps what it ships."""
        return {
            **clean(),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **({} if cache is None else {"XDG_CACHE_HOME": str(cache)}),
        }

    def add_worker(self) -> int:
        """Start a worker, and wait until the master knows it; returns its number."""
        number, self._started = self._started, self._started + 1
        place = ("--work-dir", str(self.work / str(number)))
        process, log = self._launch(
            f"worker {number}", "worker.Worker", *SERVER, *self._limits, *place, self.master
        )
        _said(process, log, "Successfully registered with master")
        self._workers[number] = process
        return number

    def kill_worker(self, number: int) -> None:
        """Kill a worker with all that runs on it, as if its machine were gone."""
        process = self._workers.pop(number)
        _kill(_family(process.pid))
        process.wait(END_SECONDS)

    def kill_executor(self, number: int) -> None:
        """Kill the executors of a worker: the worker tells the master, which asks for others."""
        found = self.executors(number)
        assert found
        _kill(found)

    def executors(self, number: int) -> list[psutil.Process]:
        """The executors of a worker that run."""
        return [one for one in _family(self._workers[number].pid) if _EXECUTOR in _command(one)]

    def has_executor(self, number: int) -> bool:
        """Whether a worker has an executor that its application knows, and that has run tasks in Python.

        The first of them takes seconds, in which the executor is busy.
        """
        return any(len(_family(executor.pid)) > 2 for executor in self.executors(number))

    def numbers(self) -> dict[str, int]:
        """The workers that executors run on, by the numbers that the application knows these by."""
        found = {}
        for number in self.workers:
            for words in (_command(one).split() for one in self.executors(number)):
                if "--executor-id" in words:
                    found[words[words.index("--executor-id") + 1]] = number
        return found

    def close(self) -> None:
        """Stop everything."""
        found = [one for process in self._processes for one in _family(process.pid)]
        for process in self._processes:
            process.terminate()
        psutil.wait_procs(found, END_SECONDS / 4)
        _kill(found)
        for process in self._processes:
            process.wait(END_SECONDS)

    def _launch(self, name: str, what: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a part of the cluster; returns it with its log."""
        import pyspark

        from braid.core.errors import RunError
        from braid.spark.processes.java import ensure_java

        try:
            ensure_java()
        except RunError as error:
            raise CannotStartError(str(error)) from error
        java = shutil.which("java")
        home = Path(pyspark.__file__).parent
        environment = {
            **clean(),
            "PATH": os.pathsep.join([self._path, *([str(Path(java).parent)] if java else [])]),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
        }
        log = self.folder / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments],
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
                env=environment,
            )
        self._processes.append(process)
        return process, log


@contextmanager
def running(
    folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "768m", path: str | None = None
) -> Iterator[Cluster]:
    """A cluster that is stopped in the end."""
    cluster = Cluster(folder, cores=cores, memory=memory, path=path)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()


def clean() -> dict[str, str]:
    """This process's environment without what would lead other Pythons to its packages."""
    hidden = (
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "PYSPARK_PYTHON",
        "PYSPARK_DRIVER_PYTHON",
        "SPARK_HOME",
    )
    return {name: value for name, value in os.environ.items() if name not in hidden}


def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for something, for so long at most."""
    tick = threading.Event()
    for _ in range(int(seconds / _POLL_SECONDS)):
        if holds():
            return
        tick.wait(_POLL_SECONDS)
    raise TimeoutError(f"{what}: not within {seconds:g} s")


def _said(process: subprocess.Popen[bytes], log: Path, words: str) -> str:
    """What follows some words in a process's log, once it says them."""

    def settled() -> bool:
        return words in log.read_text() or process.poll() is not None

    try:
        until(settled, START_SECONDS, f"{log.stem} does not say {words!r}")
    except TimeoutError as error:
        _kill(_family(process.pid))
        raise CannotStartError(str(error)) from error
    text = log.read_text()
    if words not in text:
        raise CannotStartError(f"{log.stem} has ended: {text[-1000:]}")
    return text.partition(words)[2].partition("\n")[0]


def _family(pid: int) -> list[psutil.Process]:
    """A process and all that it has started and that run."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
