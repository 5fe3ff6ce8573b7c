"""Metrics of a stage: one record per micro-batch, as a line of JSON."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field, model_validator

from braid.core.counters import Counters
from braid.home.records import CountersField, Record
from braid.home.rotation import generations, rotate


class MicroBatch(Record):
    """What a micro-batch of a stage did.

    Parameters
    ----------
    stage, kind
        The stage, and what kind of stage it is: `slicer` or `join`.
    batch, commit
        Number of the micro-batch, and of the commit that it wrote.
    at
        When it began, as Spark says it.
    time
        When it was committed, in seconds.
    duration_ms
        How long its phases took, by Spark's names.
    match_rate
        Share of the left rows decided that had a match; None if there were none, or the stage is no join.
    lag_ms
        How far the stream time of each input is behind the wall clock; None if it has none yet, or ended.
    counters
        What it counted.
    """

    stage: str
    kind: str
    batch: int
    commit: int = 0
    at: str
    time: float = 0.0
    duration_ms: dict[str, float] = Field(default_factory=dict)
    match_rate: float | None = None
    lag_ms: dict[str, int | None] = Field(default_factory=dict)
    counters: CountersField = Field(default_factory=Counters)

    @model_validator(mode="before")
    @classmethod
    def _of_first_version(cls, value: object) -> object:
        """Lines of the first version have counters beside the rest."""
        if isinstance(value, dict) and "counters" not in value:
            return {**value, "counters": value}
        return value

    def append(self, path: Path) -> None:
        """Add the record to a metrics file."""
        line = json.dumps(self.model_dump(mode="json"), separators=(",", ":"))
        rotate(path)
        with path.open("a") as file:
            file.write(line + "\n")


def read_metrics(path: Path) -> list[MicroBatch]:
    """All records of a metrics file, oldest first; a last line that is still being written is left out."""
    return [
        MicroBatch.of_json(json.loads(line), where=str(each))
        for each in generations(path)
        for line in each.read_text().split("\n")[:-1]
    ]
