"""What all programs share: the job that they are given, and the events that they report."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from suite.spec import Query

PRIME = 1_000_000_007


class Job:
    """A job: a query over two folders, and where to put things.

    Attributes
    ----------
    mode
        `drain` (join what is there, then end), `follow` (go on with what comes until killed), `resume` (the
        same, from the checkpoint of a process that was killed) or `finish` (join what is left after that).
    state
        Which state store to use, for systems that have a choice.
    period
        With `follow`: ids per publication, so that `id // period` numbers the publications.
    category
        Whether `left` and `right` are raw categories in Braid's home.
    """

    def __init__(self, path: str) -> None:
        values = json.loads(Path(path).read_text())
        query = values["query"]
        self.query = Query(**{**query, "texts": tuple(query["texts"])})
        self.left: str = values["left"]
        self.right: str = values["right"]
        self.warm_left: str = values["warm_left"]
        self.warm_right: str = values["warm_right"]
        self.work: str = values["work"]
        self.mode: str = values["mode"]
        self.state: str = values["state"]
        self.period: int = values["period"]
        self.heap: str = values["heap"]
        self.options: dict[str, object] = values["options"]
        self.category: bool = values["category"]


def job() -> Job:
    """The job that this process was started for."""
    return Job(sys.argv[1])


def emit(event: str, **values: object) -> None:
    """Report an event to the suite, with the most memory that this process has had, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write("@@ " + json.dumps({"event": event, "at": time.time(), "most": most, **values}) + "\n")
    sys.stdout.flush()


def finish() -> None:
    """End at once: results are out, and an orderly shutdown is not measured."""
    sys.stdout.flush()
    os._exit(0)
