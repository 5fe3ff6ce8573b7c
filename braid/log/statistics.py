"""How large a category is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.log.category import Category


@dataclass(frozen=True)
class CategoryStatistics:
    """What a category takes up, and what it holds.

    `files` and `bytes` are those in its folder, used or not. Wall-clock times are those of the oldest and the
    newest commit, `times` the least and greatest event time per time column; in microseconds, and None or
    absent where there is none.
    """

    files: int
    bytes: int
    commits: int
    rows: int
    segments: int
    oldest_wall_time: int | None
    newest_wall_time: int | None
    times: Mapping[str, tuple[int, int]]


def measure(category: Category) -> CategoryStatistics:
    """Look at a category as it is now."""
    reader = category.reader()
    last = category.latest()
    settings = category.settings
    rows = 0
    walls: list[int] = []
    times: dict[str, tuple[int, int]] = {}

    def widen(column: str, least: int, greatest: int) -> None:
        low, high = times.get(column, (least, greatest))
        times[column] = min(low, least), max(high, greatest)

    for segment in settings.live_segments:
        rows += segment.rows
        walls += segment.wall
        for column, limits in segment.times.items():
            widen(column, *limits)
    for number in range(settings.covered + 1, last + 1):
        commit = reader.commit(number)
        rows += commit.rows
        walls.append(commit.wall_time)
        for chunk in commit.chunks:
            for column, stats in chunk.times.items():
                if stats.min is not None and stats.max is not None:
                    widen(column, stats.min, stats.max)
    files = category.storage.files()
    return CategoryStatistics(
        files=len(files),
        bytes=sum(file.size for file in files),
        commits=last + 1 - settings.first,
        rows=rows,
        segments=len(settings.live_segments),
        oldest_wall_time=min(walls, default=None),
        newest_wall_time=max(walls, default=None),
        times=times,
    )
