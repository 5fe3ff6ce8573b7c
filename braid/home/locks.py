"""Locks between processes: files that are locked for as long as they are open."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def take(lock: TextIO, *, shared: bool = False) -> bool:
    """Take the lock of an open file, until it is closed; False if somebody has it."""
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def exclusive(path: Path) -> Iterator[bool]:
    """Whether nobody else is in such a block, and nobody comes in until it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        yield take(lock)
