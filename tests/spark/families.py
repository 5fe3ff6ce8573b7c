"""Finding the processes of an application, some of which may be ending at that moment."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def command(process: psutil.Process) -> list[str]:
    """The command of a process; nothing if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def nursery(driver: psutil.Process) -> psutil.Process | None:
    """The process that others are forked from, if it is there."""
    found = (one for one in driver.children() if "braid.spark.processes.nursery" in command(one))
    return next(found, None)


def java(driver: psutil.Process) -> psutil.Process | None:
    """The Java process, if it is there."""
    return next((one for one in driver.children() if command(one)[:1] and "java" in command(one)[0]), None)


def kill(processes: Iterable[psutil.Process]) -> list[int]:
    """Kill processes; returns the numbers of those that were there."""
    killed = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
            killed.append(process.pid)
    return killed


def children(process: psutil.Process) -> list[psutil.Process]:
    """Children of a process; none if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return process.children()
    return []
