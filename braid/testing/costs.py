"""What a running application takes in memory and on the disk.

Measured by `python -m tests.service.predicting`: the examples on Spark 4.3 with two cores, about 200 rows
per second of each input; memory is the proportional set size of the driver's processes, added up.
"""

from __future__ import annotations

JVM = 600e6
"""Java of the driver, with its classes and its young generation."""
PYTHON = 250e6
"""The Python driver, and the process that others are forked from."""
STAGE = 90e6
"""What serves one query: planners, workers, and Java's share."""
HELD_ROW = 120.0
"""A row that an operator holds: its event time, hash and flags in NumPy, and its block, which is mapped. With
a million rows on each side of a join, a text key and two more columns, it was 111 to 123 bytes."""
COMMIT_SHARE = 0.9
"""Inputs wait for so much of what the option `latency` allows (`engine.cadence`)."""
SHARD_STATE = 400.0
"""Bytes of state that each further shard has of its own: its references to blocks."""
STATE_COPIES = 25
"""States of micro-batches that a checkpoint keeps."""
STAGE_CHECKPOINT, STATEFUL_CHECKPOINT = 14e3, 350e3
"""Offsets and commits of a query, and files of its state store, whatever the state."""


def memory_bytes(stages: int, rows_held: float, *, pooled: bool = False) -> float:
    """Memory of a driver with its workers; of a member of a pool, what it adds to the driver."""
    alone = 0.0 if pooled else JVM + PYTHON
    return alone + STAGE * stages + HELD_ROW * rows_held


def checkpoint_bytes(stages: int, stateful: int, state: float) -> float:
    """Bytes of all checkpoints of an application."""
    return STAGE_CHECKPOINT * stages + STATEFUL_CHECKPOINT * stateful + STATE_COPIES * state
