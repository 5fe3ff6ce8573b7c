"""What a stage was started with, and must go on with as long as its checkpoint is there."""

from __future__ import annotations

from braid.home.records import Record


class StateLayout(Record):
    """How the state of a stage is cut.

    Parameters
    ----------
    shards
        Ranges of hashes.
    partitions
        Partitions of Spark's state store that the shards are spread over.
    """

    shards: int
    partitions: int


class SinkStart(Record):
    """Where a sink began to write.

    Parameters
    ----------
    target
        Category, folder or lookup table.
    first_commit
        Number under which micro-batch 0 of the checkpoint was written, or would have been.
    """

    target: str
    first_commit: int
