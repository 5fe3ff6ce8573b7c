"""What a micro-batch has counted, on its way from the sink's process to the driver: one small file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from braid.core.counters import Counters, from_json, to_json
from braid.core.errors import RunError
from braid.home.files import read_json, write_json


@dataclass(frozen=True)
class Counted:
    """A micro-batch that is committed, as its sink knows it.

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
        """Leave the record for `take`."""
        head = {"batch": self.batch, "commit": self.commit, "time": self.time}
        write_json(_file(folder, stage, self.batch), {**head, **to_json(self.counts)})

    @classmethod
    def take(cls, folder: Path, stage: str, batch: int) -> Counted | None:
        """Read the record of a micro-batch and remove it; None if there is none."""
        path = _file(folder, stage, batch)
        value = read_json(path)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise RunError("not a record of counters", where=str(path), hint="remove the damaged file")
        path.unlink()
        return cls(int(value["batch"]), int(value["commit"]), float(value["time"]), from_json(value))


def _file(folder: Path, stage: str, batch: int) -> Path:
    return folder / f"{stage}.{batch}.json"
