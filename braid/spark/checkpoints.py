"""What Braid reads in the checkpoint of a query before Spark does, and writes there in its place.

Spark writes `offsets/<batch>` before a micro-batch and `commits/<batch>` after it, so that at most one is
begun and not done. It keeps the last ones, and reads the last two offsets when it starts. What the driver
slices itself is written down in the same way, so that Spark can go on from there.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from braid.core.errors import PermanentError, RunError
from braid.home.control import ANEW
from braid.home.files import write_text

_TRIES = 20
"""How often a checkpoint is copied that changes meanwhile."""
RETAINED = 10
"""Micro-batches before the last one that a checkpoint keeps."""


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


def read_offset(folder: Path, batch: int) -> tuple[int, str]:
    """The clock of a micro-batch in milliseconds, and the offset that it ends with, of its only source."""
    _, head, offset, *_ = (folder / "offsets" / str(batch)).read_text().splitlines()
    return int(json.loads(head)["batchTimestampMs"]), offset


def write_offset(folder: Path, batch: int, offset: str) -> None:
    """Let a micro-batch have ended with another offset: the next one goes on from there."""
    path = folder / "offsets" / str(batch)
    version, head, _, *rest = path.read_text().splitlines()
    write_text(path, "\n".join([version, head, offset, *rest]))


def copy_checkpoint(folder: Path, target: Path) -> int:
    """Copy what it takes to go on after the last micro-batch that is done; its number, -1 if there is none.

    The query may be running: files never change once they are there, but old ones go.
    """
    for tried in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        try:
            return _copy(folder, target)
        except (RunError, FileNotFoundError):
            if tried == _TRIES - 1:
                raise
    raise AssertionError


def _copy(folder: Path, target: Path) -> int:
    done = read_checkpoint(folder).done
    if done < 0:
        return done
    files = [folder / "offsets" / str(batch) for batch in (done - 1, done) if batch >= 0]
    files.append(folder / "commits" / str(done))
    # Notes of files: also of those that a later micro-batch was to read, which is then the next one.
    files += [path for path in sorted((folder / "sources").glob("*/*")) if not path.name.startswith(".")]
    for path in files:
        write_text(target / path.relative_to(folder), path.read_text())
    return done


def begin_checkpoint(folder: Path) -> None:
    """Give a checkpoint the id by which Spark, and whoever adds up what is counted, know its query."""
    write_text(folder / "metadata", json.dumps({"id": str(uuid.uuid4())}))


def begin_batch(folder: Path, batch: int, clock: int, offset: str) -> None:
    """Note that a micro-batch begins; see `read_offset`."""
    if not (folder / "metadata").exists():
        begin_checkpoint(folder)
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": clock, "conf": {}})
    write_text(folder / "offsets" / str(batch), f"v1\n{head}\n{offset}")


def end_batch(folder: Path, batch: int) -> None:
    """Note that a micro-batch is done. If that is lost, it is repeated, and finds that it was published."""
    text = 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'
    write_text(folder / "commits" / str(batch), text, durable=False)
    for kind in ("offsets", "commits"):
        (folder / kind / str(batch - RETAINED - 1)).unlink(missing_ok=True)


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
        raise PermanentError(
            "the file of the checkpoint is damaged or cut off",
            where=str(path),
            hint=f"restore it from a backup; or {ANEW}",
        ) from None


def _missing(path: Path) -> RunError:
    return PermanentError(
        "the file of the checkpoint is missing",
        where=str(path),
        hint=f"restore the folder {path.parent} from a backup; or {ANEW}",
    )
