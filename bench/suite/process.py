"""Running one program of a system: pinned to two cores, sampled, bounded in time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

MARK = "@@ "
"""Begins a line of output that is an event for the suite, as JSON."""
SAMPLE_SECONDS = 0.5
DISK_SECONDS = 2.0
CORES = 2

Event = dict[str, object]


class Times(NamedTuple):
    """CPU seconds of a process, and of those of its children that it has waited for."""

    name: str
    parent: int
    own: float
    waited_for: float


def spent(before: Mapping[int, Times], now: Mapping[int, Times]) -> dict[str, float]:
    """CPU seconds between two looks at all processes, by name.

    What a process that has ended had used may or may not have become its parent's: only if somebody waited
    for it. Then it counts there from the last look on.
    """
    found: dict[str, float] = {}
    for pid, times in now.items():
        old = before.get(pid, times._replace(own=0.0, waited_for=0.0))
        ended = sum(
            child.own + child.waited_for
            for number, child in before.items()
            if child.parent == pid and number not in now
        )
        more = times.waited_for - old.waited_for
        seconds = times.own - old.own + (more - ended if more >= ended else more)
        found[times.name] = found.get(times.name, 0.0) + seconds
    return found


class FailedError(Exception):
    """A program failed, took too long or too much memory; the text goes into the table."""


@dataclass
class Usage:
    """What a program used from its `start` event to its `done` event."""

    peak_rss: int = 0
    peak_pss: int = 0
    peak_parts: dict[str, int] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    peak_state_bytes: int = 0
    peak_log_bytes: int = 0


@dataclass
class Program:
    """A process with all its descendants, and the events that it reports.

    Parameters
    ----------
    command, environment
        What to start.
    log
        File for everything that it says.
    memory
        Bytes of memory (proportional set size of all its processes) that it may take.
    """

    command: list[str]
    environment: Mapping[str, str]
    log: Path
    memory: int
    usage: Usage = field(default_factory=Usage)
    started: float = 0.0
    _events: list[Event] = field(default_factory=list)
    _arrived: threading.Condition = field(default_factory=threading.Condition)
    _seen: dict[int, psutil.Process] = field(default_factory=dict)
    _error: str | None = None
    _base: float | None = None
    _folders: dict[str, list[str]] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _times: dict[int, Times] = field(default_factory=dict)
    _spent: dict[str, float] = field(default_factory=dict)

    def start(self) -> Program:
        """Start the process."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.started = time.time()
        self._process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=dict(self.environment),
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=_pin,
        )
        self._root = psutil.Process(self._process.pid)
        for target in (self._listen, self._watch):
            threading.Thread(target=target, daemon=True).start()
        return self

    def wait_for(self, name: str, timeout: float) -> Event:
        """The next event of that name; raises `FailedError` when it cannot come any more."""
        return self.wait_until(lambda event: event["event"] == name, timeout, name)

    def wait_until(self, wanted: Callable[[Event], bool], timeout: float, what: str) -> Event:
        """The first event that is wanted."""
        deadline = time.monotonic() + timeout
        with self._arrived:
            while True:
                for event in self._events:
                    if wanted(event):
                        return event
                self.check()
                if (
                    not self._arrived.wait(min(1.0, deadline - time.monotonic()))
                    and time.monotonic() > deadline
                ):
                    raise FailedError(f"no {what} after {timeout:.0f} s")

    def check(self) -> None:
        """Raise `FailedError` if the program has ended."""
        if self._error is not None or self._ended.is_set():
            raise FailedError(self._error or f"ended with code {self._process.poll()}: {self._last_line()}")

    def events(self, name: str) -> list[Event]:
        """All events of a name so far."""
        with self._arrived:
            return [event for event in self._events if event["event"] == name]

    def sample(self) -> tuple[dict[str, float], dict[str, int]]:
        """CPU seconds so far, and proportional memory now, by the names of processes."""
        memory: dict[str, int] = {}
        times: dict[int, Times] = {}
        for process in self._tree():
            with contextlib.suppress(psutil.Error, OSError, ValueError):
                if _is_forked_java(process):
                    continue
                name, used = process.name(), process.cpu_times()
                times[process.pid] = Times(
                    name,
                    process.ppid(),
                    used.user + used.system,
                    used.children_user + used.children_system,
                )
                memory[name] = memory.get(name, 0) + _proportional(process.pid)
        for name, seconds in spent(self._times, times).items():
            self._spent[name] = self._spent.get(name, 0.0) + seconds
        self._times = times
        return dict(self._spent), memory

    def kill(self) -> None:
        """Kill the process and every descendant that was ever seen, by SIGKILL."""
        self._tree()
        for process in self._seen.values():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._process.wait()
        self._ended.wait(5)

    # -- threads ----------------------------------------------------------------------------------

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self.log.open("w") as log:
            for line in self._process.stdout:
                log.write(line)
                log.flush()
                if line.startswith(MARK):
                    self._take(json.loads(line[len(MARK) :]))
        with self._arrived:
            self._ended.set()
            self._arrived.notify_all()

    def _take(self, event: Event) -> None:
        event["received"] = time.time()
        if event["event"] == "start":
            self._base = self._cpu()
            self._folders = {kind: list(event.get(kind, [])) for kind in ("state", "log")}  # type: ignore[call-overload]
        elif event["event"] == "done" and self._base is not None:
            self._measure_disk()
            self._measure_memory()
            # A program of one process may be done between two samples.
            most = int(str(event.get("most", 0)))
            self.usage.peak_rss = max(self.usage.peak_rss, most)
            self.usage.peak_pss = max(self.usage.peak_pss, most)
            self.usage.cpu_seconds = self._cpu() - self._base
            self._base = None
        with self._arrived:
            self._events.append(event)
            self._arrived.notify_all()

    def _watch(self) -> None:
        last = 0.0
        while not self._ended.wait(SAMPLE_SECONDS):
            if self._measure_memory() > self.memory:
                self._error = f"more than {self.memory / 2**30:.0f} GB of memory"
                self.kill()
                return
            if self._base is not None and time.monotonic() - last > DISK_SECONDS:
                self._measure_disk()
                last = time.monotonic()

    # -- measures ---------------------------------------------------------------------------------

    def _tree(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            for process in [self._root, *self._root.children(recursive=True)]:
                self._seen.setdefault(process.pid, process)
        return list(self._seen.values())

    def _measure_memory(self) -> int:
        """Sample memory; returns the proportional size, in which a page that processes share counts once.

        The kernel takes milliseconds per process to tell that one, time that the system is to have: it is
        asked for only when the resident size is greater than ever.
        """
        sizes: dict[psutil.Process, int] = {}
        for process in self._tree():
            with contextlib.suppress(psutil.Error, OSError):
                if not _is_forked_java(process):
                    sizes[process] = process.memory_info().rss
        rss = sum(sizes.values())
        if rss <= (self.memory if self._base is None else 1.01 * self.usage.peak_rss):
            return 0
        pss = 0
        parts: dict[str, int] = {}
        for process in sizes:
            with contextlib.suppress(psutil.Error, OSError, ValueError):
                own = _proportional(process.pid)
                pss += own
                name = process.name()
                parts[name] = parts.get(name, 0) + own
        if self._base is not None:
            self.usage.peak_rss = rss
            if pss > self.usage.peak_pss:
                self.usage.peak_pss, self.usage.peak_parts = pss, parts
        return pss

    def _cpu(self) -> float:
        total = 0.0
        for process in self._tree():
            with contextlib.suppress(psutil.Error):
                total += _cpu_seconds(process)
        return total

    def _measure_disk(self) -> None:
        for kind, attribute in (("state", "peak_state_bytes"), ("log", "peak_log_bytes")):
            patterns = self._folders.get(kind, [])
            # Relative to the root, because a state folder may be a pattern: topics have folders of their own.
            folders = [path for pattern in patterns for path in Path("/").glob(pattern.lstrip("/"))]
            size = sum(folder_size(str(folder))[1] for folder in folders)
            setattr(self.usage, attribute, max(getattr(self.usage, attribute), size))

    def _last_line(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "Exception" in line]
        return (telling or lines or ["no output"])[-1].strip()[:200]


def folder_size(folder: str) -> tuple[int, int]:
    """Number and bytes of all files under a folder, which may change meanwhile."""
    files = total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(base, name))  # noqa: PTH116, PTH118  many files
                files += 1
                # A broker's index files are large and empty.
                total += min(status.st_size, status.st_blocks * 512)
    return files, total


def _cpu_seconds(process: psutil.Process) -> float:
    """Of a process and of its children that have ended."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _is_forked_java(process: psutil.Process) -> bool:
    """Whether a process is Java's, on its way to another program.

    Java starts programs by `vfork`: until the child has become its program, it has the name of a thread and
    the memory of its parent, all of which would count twice.
    """
    if Path(f"/proc/{process.pid}/exe").readlink().name != "java":
        return False
    parent = process.parent()
    return parent is not None and parent.cmdline() == process.cmdline()


def _proportional(pid: int) -> int:
    with Path(f"/proc/{pid}/smaps_rollup").open() as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _pin() -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
