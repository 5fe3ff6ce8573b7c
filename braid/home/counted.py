"""What a micro-batch has counted, on its way from the sink's process to the driver: one small file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from braid.core.counters import Counters, from_json, to_json
from braid.core.errors import RunError
from braid.home.files import read_json, write_json


@dataclass(frozen=True)
class Counted:
    """A micro-batch that is published, as its sink knows it.

    The file is written after what it tells of, and before Spark notes that the micro-batch is done: one that
    is missing belongs to a micro-batch that will be repeated, and a repeated one writes the same file again.

    Parameters
    ----------
    batch
        Its number in the checkpoint.
    commit
        Number of the commit that it wrote.
    time
        When that was, in seconds.
    counts
        Of all its tasks.
    """

    batch: int
    commit: int
    time: float
    counts: Counters

    def write(self, folder: Path, stage: str) -> None:
        """Leave the record for the driver."""
        head = {"batch": self.batch, "commit": self.commit, "time": self.time}
        write_json(counted_file(folder, stage, self.batch), {**head, **to_json(self.counts)})

    @classmethod
    def read(cls, path: Path) -> Counted | None:
        """The record in a file; None if there is no such file."""
        value = read_json(path)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise RunError("not a record of counters", where=str(path), hint="remove the damaged file")
        return cls(int(value["batch"]), int(value["commit"]), float(value["time"]), from_json(value))


def counted_file(folder: Path, stage: str, batch: int) -> Path:
    """The file of a micro-batch."""
    return folder / f"{stage}.{batch}.json"


def counted_files(folder: Path, stage: str) -> dict[int, Path]:
    """The files of a stage that are there, by micro-batch, in order."""
    found = {}
    for path in folder.glob(f"{stage}.*.json"):
        number = path.name.removeprefix(f"{stage}.").removesuffix(".json")
        if number.isdigit():
            found[int(number)] = path
    return dict(sorted(found.items()))
