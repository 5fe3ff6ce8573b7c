"""What an input has yet to read, in rows and in event time: found in commit records when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from braid.core.errors import LogError
from braid.log.records import Chunk
from braid.log.shared import reader

COMMITS = 1000
"""Most commit records that are looked at; of a longer backlog only the beginning is counted."""


class Backlog(NamedTuple):
    """What is published and not read.

    Parameters
    ----------
    rows
        Rows that are not read, or are being read.
    more
        Whether there are more than were counted.
    micros
        The newest event time published, less the newest one read; None if commits tell no times.
    """

    rows: int
    more: bool
    micros: int | None


def backlog(root: str, category: str, following: tuple[int, int], time: str | None) -> Backlog | None:
    """What a category has from a commit and chunk on; None if it is gone."""
    try:
        log = reader(root, category)
        latest = log.latest()
        first = max(following[0], log.first)
        last = min(latest, first + COMMITS - 1)
        behind = [
            chunk
            for number in range(first, last + 1)
            for chunk in log.commit(number).chunks
            if (number, chunk.index) >= following
        ]
        before = following[0] if following[1] else following[0] - 1
        read = log.commit(before).chunks if log.first <= before <= latest else ()
        newest_read = _newest((chunk for chunk in read if (before, chunk.index) < following), time)
        # Of a long backlog the newest times are in the last commit.
        tail = log.commit(latest).chunks if latest > last else ()
    except LogError:
        return None
    newest = _newest((*behind, *tail), time)
    micros = None
    if newest_read is not None:
        micros = 0 if newest is None else max(0, newest - newest_read)
    return Backlog(sum(chunk.rows for chunk in behind), latest > last, micros)


def _newest(chunks: Iterable[Chunk], time: str | None) -> int | None:
    times = (chunk.times[time].max for chunk in chunks if time is not None and time in chunk.times)
    return max((at for at in times if at is not None), default=None)
