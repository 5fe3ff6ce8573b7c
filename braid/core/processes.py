"""Processes that are known again: by their number, and by when they began."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_BOOT = _PROC / "sys" / "kernel" / "random" / "boot_id"


def began(pid: int) -> str | None:
    """When a process began, as a text that no other process with this number has; None if it is not there.

    That is the kernel's own count of ticks since the machine started, and which start that was. The time of
    day would not do: it is computed anew for every reader, and changes when the clock is set.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return _elsewhere(pid)
    # The name of the program, in parentheses, may hold anything.
    fields = text[text.rindex(")") + 2 :].split()
    state, ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{_boot()}:{ticks}"


def is_left(pid: int, known: str) -> bool:
    """Whether others that a process has led may still be known by its number.

    The number of a session is not given to another process as long as anything is left of it. So that is so
    if the process is there, or gone with nobody in its place; not after the machine was started again.
    """
    now = began(pid)
    return now == known or (now is None and known.partition(":")[0] == _boot())


@cache
def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except FileNotFoundError:
        return ""


def _elsewhere(pid: int) -> str | None:
    """The same without `/proc`."""
    if _BOOT.exists():
        return None
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None
