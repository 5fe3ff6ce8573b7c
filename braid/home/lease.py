"""Whose turn it is to write for an application: the process that was started last.

A process may sleep for as long as it likes, or lose sight of its home, and be replaced meanwhile. When it
goes on, it finds that the lease is another's, and publishes nothing any more.
"""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

from braid.core.errors import RunError
from braid.home.paths import AppHome
from braid.home.records import Record


class Lease(Record):
    """Who may write.

    Parameters
    ----------
    holder
        A start of the application; no other one has the same.
    generation
        Counts the starts.
    pid, taken
        The process that has it, and since when, in seconds since the epoch.
    """

    holder: str
    generation: int
    pid: int
    taken: float


def take_lease(home: AppHome) -> str:
    """Take the lease from whoever had it, and return its holder; the caller holds the application's lock."""
    before = Lease.read(home.lease_file)
    generation = 1 if before is None else before.generation + 1
    lease = Lease(holder=uuid.uuid4().hex, generation=generation, pid=os.getpid(), taken=time.time())
    lease.write(home.lease_file)
    return lease.holder


def check_lease(path: Path, holder: str) -> None:
    """Raise `RunError` if the lease is another's."""
    found = Lease.read(path)
    if found is None or found.holder != holder:
        who = "nobody" if found is None else f"process {found.pid}"
        raise RunError(
            f"this process may not write for the application any more, {who} may: it was replaced",
            where=str(path),
        )
