"""Python processes for Spark on this machine, forked from one that has everything imported.

Spark starts a Python process for every source, sink and operator of every query, and each of them would
import for most of a second what the others have imported, too. Instead, Spark is given a launcher for its
Python: it asks the nursery for a process, hands its standard streams over, and stays as the process that
Spark sees: it ends as its process ends, passes a request of Spark's to end on, and takes its process with it
if killed. Without a nursery to answer, the launcher starts Python itself.

SIGTERM that anybody else sends ends none of them: when a machine is shut down every process gets it, and the
driver needs them until it has ended in good order.
"""

from __future__ import annotations

import array
import gc
import importlib
import os
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from braid.spark.processes.daemon import PRELOADED
from braid.spark.processes.launch import NUMBER

_ALSO = (
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
)
"""What Spark runs for sources, sinks and operators."""

_started: dict[tuple[str, str], str] = {}
"""Launchers of this process, by the Python that they start and by their names."""
_running: list[subprocess.Popen[bytes]] = []
"""Nurseries of this process; they end when their standard input does, and so with this process."""


def launcher(
    python: str, environment: Mapping[str, str], log: Path | None = None, name: str = "python"
) -> str:
    """A command to give to Spark as its Python; a nursery is started for the first one that asks.

    What the nursery says goes to the file `log`, or where this process says it. The command is a file of the
    given name, with nothing else beside it that could be run.

    It is `python` itself where there can be no nursery: no program may run in the folder for temporary files,
    or its path is too long for a socket.
    """
    if (python, name) not in _started:
        folder = Path(tempfile.mkdtemp(prefix="braid-python-"))
        try:
            _started[python, name] = _start(python, environment, folder / name, log)
        except OSError:
            shutil.rmtree(folder)
            _started[python, name] = python
    return _started[python, name]


def _start(python: str, environment: Mapping[str, str], script: Path, log: Path | None) -> str:
    folder, address = script.parent, script.with_name("nursery")
    program = Path(__file__).with_name("launch.py")
    words = shlex.join([python, "-IS", str(program), str(address), python])
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o700)
    if not os.access(script, os.X_OK):
        raise PermissionError(script)
    packages = str(Path(__file__).parents[2])
    paths = [packages, *filter(None, [os.environ.get("PYTHONPATH")])]
    # Listen before the nursery runs: a launcher that connects early then waits instead of failing.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server, ExitStack() as held:
        file = None if log is None else held.enter_context(log.open("ab"))
        server.bind(str(address))
        server.listen(64)
        _running.append(
            subprocess.Popen(
                [python, "-m", "braid.spark.processes.nursery", str(folder), str(server.fileno())],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                pass_fds=[server.fileno()],
                env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(paths)},
            )
        )
    return str(script)


class Nursery:
    """Answers launchers, each with a process of its own.

    Parameters
    ----------
    folder
        Of the socket; it is removed at the end.
    server
        The socket.
    """

    def __init__(self, folder: Path, server: socket.socket) -> None:
        self._folder = folder
        self._server = server
        self._waiting: dict[int, socket.socket] = {}
        self._events = selectors.DefaultSelector()
        self._ended, ended = os.pipe()
        os.set_blocking(ended, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ended, warn_on_full_buffer=False)

    def run(self) -> None:
        """Fork until the standard input closes."""
        for known in (self._server, self._ended, 0):
            self._events.register(known, selectors.EVENT_READ)
        try:
            while self._turn():
                pass
        finally:
            for pid in self._waiting:
                _kill(pid)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _turn(self) -> bool:
        for key, _ in self._events.select():
            if key.fileobj is self._server:
                self._answer()
            elif key.fileobj == self._ended:
                os.read(self._ended, 4096)
                self._reap()
            elif key.fileobj == 0:
                if not os.read(0, 4096):
                    return False
            else:
                self._abandoned(key.data)
        return True

    def _answer(self) -> None:
        connection, _ = self._server.accept()
        try:
            request = receive(connection)
        except (OSError, EOFError):
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            try:
                connection.close()
                self._become(request)
            finally:
                # The child must never return into the loop of the nursery.
                os._exit(1)
        for stream in request.streams:
            os.close(stream)
        with suppress(OSError):
            # If the launcher is gone, its connection is closed, and the selector reports that.
            connection.sendall(NUMBER.pack(pid))
        self._waiting[pid] = connection
        self._events.register(connection, selectors.EVENT_READ, pid)

    def _reap(self) -> None:
        """Tell launchers how their processes ended."""
        while self._waiting:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            connection = self._waiting.pop(pid, None)
            if connection is not None:
                self._events.unregister(connection)
                with suppress(OSError):
                    connection.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
                connection.close()

    def _abandoned(self, pid: int) -> None:
        """Kill a process whose launcher is gone."""
        connection = self._waiting.get(pid)
        if connection is not None:
            self._events.unregister(connection)
            _kill(pid)
            os.waitpid(pid, 0)
            del self._waiting[pid]
            connection.close()

    def _become(self, request: Request) -> NoReturn:
        """Be the process that was asked for."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # What forks workers handles SIGTERM, and lets it end them; blocked it stays in whatever is forked.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        self._events.close()
        self._server.close()
        os.close(self._ended)
        for connection in self._waiting.values():
            connection.close()
        for number, stream in enumerate(request.streams):
            os.dup2(stream, number)
            os.close(stream)
        run(request)


def _kill(pid: int) -> None:
    """Kill a process, and what it has forked if it leads a group, as what forks workers does."""
    (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Request:
    """What a launcher asks for.

    Parameters
    ----------
    folder
        To run in.
    arguments
        Of Python: `-m` and a module, or `-c` and a text, and their own.
    environment
        Variables.
    streams
        File numbers of the standard streams.
    """

    folder: str
    arguments: list[str]
    environment: dict[str, str]
    streams: list[int]


def receive(connection: socket.socket) -> Request:
    """What `launch.ask` has sent."""
    streams = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(NUMBER.size, socket.CMSG_SPACE(3 * streams.itemsize))
    for level, kind, packed in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            streams.frombytes(packed)
    (length,) = NUMBER.unpack(data)
    text = b""
    while len(text) < length:
        part = connection.recv(length - len(text))
        if not part:
            raise EOFError
        text += part
    folder, count, *words = map(os.fsdecode, text.split(b"\0"))
    variables = dict(word.split("=", 1) for word in words[int(count) :])
    return Request(folder, words[: int(count)], variables, list(streams))


def run(request: Request) -> NoReturn:
    """Run `-m module ...` or `-c text ...` as Python would, with all that is imported already."""
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    for path in reversed(request.environment.get("PYTHONPATH", "").split(os.pathsep)):
        if path and path not in sys.path:
            sys.path.insert(0, path)
    kind, what, *rest = request.arguments
    sys.argv = [what if kind == "-m" else kind, *rest]
    warnings.filterwarnings("ignore", message=".*found in sys.modules", category=RuntimeWarning)
    code = 1
    try:
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def main() -> None:
    """Import, and fork. Requests to end are for the driver to handle, as elsewhere in Spark."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    nursery = Nursery(Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
    for name in (*PRELOADED, *_ALSO):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    nursery.run()


if __name__ == "__main__":
    main()
