"""What Braid reads in the checkpoint of a query, before Spark does.

Spark writes `offsets/<batch>` before a micro-batch and `commits/<batch>` after it, so that at most one is
begun and not done. It keeps the last ones, and reads the last two offsets when it starts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from braid.core.errors import RunError

ANEW = (
    "start anew: remove the application with its categories (`braid drop app`) and the tables that it has "
    "written, and run it again over its inputs"
)
"""What is left to do where a checkpoint cannot be had back."""


@dataclass(frozen=True)
class Checkpoint:
    """How far a query has come.

    Parameters
    ----------
    folder
        Of the checkpoint.
    begun, done
        Its last micro-batches that were begun and done; -1 if there is none.
    """

    folder: Path
    begun: int
    done: int

    @property
    def in_flight(self) -> bool:
        """Whether a micro-batch is begun and not done: it is repeated, and may have been published."""
        return self.begun > self.done


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint; `RunError` names a file that is needed, and missing or damaged."""
    offsets, commits = _numbers(folder / "offsets"), _numbers(folder / "commits")
    found = Checkpoint(folder, max(offsets, default=-1), max(commits, default=-1))
    if found.begun == -1 and found.done == -1:
        return found
    if found.done > found.begun:
        raise _missing(folder / "offsets" / str(found.done))
    if found.begun > found.done + 1:
        raise _missing(folder / "commits" / str(found.begun - 1))
    if found.begun > 0 and found.begun - 1 not in offsets:
        raise _missing(folder / "offsets" / str(found.begun - 1))
    if not (folder / "metadata").exists():
        raise _missing(folder / "metadata")
    _check(folder / "metadata", lines=1)
    for number in {max(0, found.begun - 1), found.begun}:
        _check(folder / "offsets" / str(number), lines=3)
    if found.done >= 0:
        _check(folder / "commits" / str(found.done), lines=2)
    return found


def _numbers(folder: Path) -> set[int]:
    """Micro-batches that have a file in a folder."""
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()} if folder.is_dir() else set()


def _check(path: Path, lines: int) -> None:
    """A file of Spark's: a version unless it is the only line, then JSON or `-` for nothing."""
    try:
        found = path.read_text().splitlines()
        if len(found) < lines or (lines > 1 and not found[0].startswith("v")):
            raise ValueError
        for line in found[lines > 1 :]:
            if line != "-":
                json.loads(line)
    except ValueError:
        raise RunError(
            "the file of the checkpoint is damaged or cut off",
            where=str(path),
            hint=f"restore it from a backup; or {ANEW}",
        ) from None


def _missing(path: Path) -> RunError:
    return RunError(
        "the file of the checkpoint is missing",
        where=str(path),
        hint=f"restore the folder {path.parent} from a backup; or {ANEW}",
    )
