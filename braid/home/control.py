"""What a stage was started with, and goes on with as long as its checkpoint is there; how far it reads."""

from __future__ import annotations

from typing import Any

from pydantic import Field

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
    writer
        The name by which the dead letters of the stage are known, together with the numbers of its commits:
        another one whenever these begin anew. None is the stage's own name, as it was in earlier versions.
    """

    target: str
    first_commit: int
    writer: str | None = None


class ReadUpTo(Record):
    """How far the present micro-batch of a stage reads: told by its source, for its sink and for its status.

    Spark tells a sink nothing but the number of the micro-batch. The source plans every micro-batch, a
    replayed one too, before its sink commits it, and one after the other.

    Parameters
    ----------
    offset
        The end offset, as the source gave it to Spark.
    following
        Commit and chunk that come next, of each input.
    rows
        Rows that the micro-batch reads, if the source knows.
    """

    offset: dict[str, Any]
    following: dict[str, tuple[int, int]] = Field(default_factory=dict)
    rows: int | None = None
