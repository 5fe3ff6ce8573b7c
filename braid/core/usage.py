"""What processes use, together with all that they have started: CPU since the last look, and memory."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import psutil

MEMORY_SECONDS = 30.0
"""How old the memory may be that is told: to ask for it takes the system some milliseconds for each GB."""


class Usage(NamedTuple):
    """What a process and its descendants use.

    Parameters
    ----------
    cpu
        Cores, on average since the last look; None at the first one.
    memory
        Bytes, of which those that several processes share count once.
    """

    cpu: float | None
    memory: int


class Usages:
    """Looks at some processes again and again.

    A process belongs to one of these if it descends from it, or is of the session that it leads: a child
    whose parent has ended has another one by then.

    Parameters
    ----------
    clock
        Seconds, of any origin.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: dict[int, tuple[float, dict[psutil.Process, float]]] = {}
        self._memory: dict[int, tuple[float, int]] = {}

    def look(self, roots: Collection[int]) -> dict[int, Usage]:
        """What some processes use, by number; those that are not there are left out."""
        now = self._clock()
        found = {}
        families = _families(roots)
        for root, family in families.items():
            spent = {process: seconds for process in family if (seconds := _cpu(process)) is not None}
            cpu = None
            if root in self._before:
                since, before = self._before[root]
                used = sum(max(0.0, seconds - before.get(process, 0.0)) for process, seconds in spent.items())
                cpu = used / (now - since) if now > since else None
            self._before[root] = now, spent
            found[root] = Usage(cpu, self._memory_of(root, family, now))
        for known in (self._before, self._memory):
            for root in [root for root in known if root not in families]:
                del known[root]
        return found

    def _memory_of(self, root: int, family: Iterable[psutil.Process], now: float) -> int:
        known = self._memory.get(root)
        if known is None or now - known[0] > MEMORY_SECONDS:
            known = self._memory[root] = now, sum(_memory(process) for process in family)
        return known[1]


def _families(roots: Collection[int]) -> dict[int, list[psutil.Process]]:
    """Processes, by the one that they belong to."""
    if not roots:
        return {}
    there = {process.pid: process for process in psutil.process_iter(["ppid"])}
    parents = {pid: process.info["ppid"] for pid, process in there.items()}
    found: dict[int, list[psutil.Process]] = defaultdict(list)
    for pid, process in there.items():
        at = pid
        while at not in roots and parents.get(at):
            at = parents[at]
        root = at if at in roots else _session(pid)
        if root is not None and root in roots and root in there:
            found[root].append(process)
    return found


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _cpu(process: psutil.Process) -> float | None:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def _memory(process: psutil.Process) -> int:
    """Bytes of a process, with its part of what it shares; where nobody may see that, all of it."""
    try:
        whole = process.memory_full_info()
        return int(getattr(whole, "pss", whole.rss))
    except psutil.AccessDenied:
        try:
            return int(process.memory_info().rss)
        except psutil.Error:
            return 0
    except psutil.Error:
        return 0
