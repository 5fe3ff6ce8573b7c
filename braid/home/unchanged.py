"""Files that are looked at again and again, and read only when they have changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class Unchanged(Generic[T]):
    """What is in a file that is replaced as a whole: it is read again when it is another one.

    Parameters
    ----------
    path, read
        The file, and what reads it.
    """

    def __init__(self, path: Path, read: Callable[[Path], T | None]) -> None:
        self._path = path
        self._read = read
        self._known: tuple[tuple[int, int, int], T | None] | None = None

    def get(self) -> T | None:
        """What the file says; None if there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        stamp, known = (found.st_mtime_ns, found.st_ino, found.st_size), self._known
        if known is not None and known[0] == stamp:
            return known[1]
        value = self._read(self._path)
        self._known = stamp, value
        return value
