"""Files that grow by lines are bounded: a full one becomes `<name>.1`, that one `<name>.2`, and so on."""

from __future__ import annotations

import shutil
from pathlib import Path

from braid.core.logging import FULL, GENERATIONS


def rotate(path: Path, full: int = FULL, kept: int = GENERATIONS) -> bool:
    """Rename a file that is full, so that the next line begins a new one; whether it was."""
    if not _is_full(path, full):
        return False
    _make_room(path, kept)
    path.replace(_older(path, 1))
    return True


def rotate_open(path: Path, full: int = FULL, kept: int = GENERATIONS) -> bool:
    """Rotate a file that another process holds open to append: it is copied, and cut to nothing.

    What is written between the two is lost, so this is for files whose lines are not counted on.
    """
    if not _is_full(path, full):
        return False
    _make_room(path, kept)
    shutil.copyfile(path, _older(path, 1))
    with path.open("r+b") as file:
        file.truncate(0)
    return True


def generations(path: Path) -> list[Path]:
    """The files that hold what was written to a path, oldest first."""
    older = [_older(path, number) for number in range(GENERATIONS, 0, -1)]
    return [each for each in (*older, path) if each.exists()]


def _is_full(path: Path, full: int) -> bool:
    try:
        return path.stat().st_size >= full
    except FileNotFoundError:
        return False


def _make_room(path: Path, kept: int) -> None:
    for number in range(kept, 1, -1):
        newer = _older(path, number - 1)
        if newer.exists():
            newer.replace(_older(path, number))


def _older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
