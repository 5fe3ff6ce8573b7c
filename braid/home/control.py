"""What a stage was started with, and goes on with as long as its checkpoint is there; how far it reads."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from braid.home.records import Record

ANEW = (
    "start anew: remove the application with its categories (`braid drop app`) and the tables that it has "
    "written, and run it again over its inputs"
)
"""What is left to do where a checkpoint, or a record that belongs to it, cannot be had back."""


class Generation(Record):
    """How the state of a stage is cut, and since when.

    A checkpoint of Spark has a fixed number of state partitions, and states of shards that are cut in one
    way. Where that is to change, the stage goes on with another checkpoint, from a savepoint: in another
    generation. Micro-batches are numbered through all of them, and so are commits. A stage that an update
    lets begin anew, with state or without, does so in another generation without a savepoint.

    Parameters
    ----------
    shards
        Ranges of hashes.
    partitions
        Partitions of Spark's state store that the shards are spread over.
    number
        How many generations there were before.
    first_batch
        The number of its first micro-batch, which Spark calls 0.
    savepoint
        What it began from: a file in the application's folder of savepoints.
    """

    shards: int
    partitions: int
    number: int = 0
    first_batch: int = 0
    savepoint: str | None = None


class Updating(Record):
    """An update that has begun to change inputs of joins: the program that ran before cannot go on any more.

    Parameters
    ----------
    id
        By which those who do it know it.
    plan
        A digest of the plan that it leads to.
    """

    id: str
    plan: str


class Seal(Record):
    """Asks the source of a stage for a savepoint after the next micro-batch, and for nothing after that.

    Parameters
    ----------
    id
        By which the savepoint will be known.
    settles
        Whether that micro-batch decides rows that have a match: see `braid.kernels.step.Step`.
    """

    id: str
    settles: bool = False


class Request(Record):
    """Asks a running application for something; `id` is by what the answer is known."""

    id: str


class Answer(Record):
    """The answer to a `Request`: `error` is why it could not be done."""

    id: str
    error: str | None = None


class Rescale(Request):
    """Asks a running application for other layouts of its stateful stages.

    Parameters
    ----------
    shards, partitions
        What is wanted; None is what options and executors say.
    """

    shards: int | None = None
    partitions: int | None = None


class Rescaled(Answer):
    """The answer to `Rescale`.

    Parameters
    ----------
    seconds
        How long it took until each stage that has changed had done a micro-batch with its new shards.
    """

    seconds: dict[str, float] = Field(default_factory=dict)


class Save(Request):
    """Asks a running application for a savepoint under a name."""

    name: str


class Restoring(Record):
    """A savepoint that an application is about to begin from."""

    savepoint: str


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
