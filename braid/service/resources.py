"""What applications ask for, compared and added up."""

from __future__ import annotations

from collections.abc import Collection

from braid.home.service import Resources


def megabytes(memory: str) -> int:
    """How much memory is asked for."""
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)


def most(asked: Collection[Resources]) -> Resources:
    """The most of each that is asked for."""
    return Resources(
        cores=max((one.cores or 0 for one in asked), default=0) or None,
        memory=max((one.memory for one in asked if one.memory), key=megabytes, default=None),
        executors=max((one.executors or 0 for one in asked), default=0) or None,
    )
