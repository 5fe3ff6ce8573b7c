"""Retention: removing old commits, and files that no commit refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from braid.core.errors import LogError
from braid.log.layout import (
    COMMITS,
    DATA,
    SEGMENTS,
    TEMP_PREFIX,
    commit_number,
    commit_path,
    data_path,
    segment_path,
)

if TYPE_CHECKING:
    from braid.log.category import Category
    from braid.log.schema import Settings


def retain(category: Category, before_wall_time_us: int, needed_from: int) -> int:
    """Remove the commits that are both older than a wall-clock time and below `needed_from`, at once."""
    retired = retire(category, before_wall_time_us, needed_from)
    clear(category, category.first)
    return retired


def retire(category: Category, before_wall_time_us: int, needed_from: int) -> int:
    """Let nobody begin to read what `retain` would remove: move `first`, and leave the files to `clear`.

    A reader may have looked at `first` just before and be about to read, so files go a while later. Segments
    go as a whole.
    """
    storage, reader = category.storage, category.reader()
    with storage.lock():
        last = category.latest()
        settings = category.settings
        first = settings.first
        removed = dict(settings.removed_max_time)

        def remember(column: str, time: int) -> None:
            removed[column] = max(time, removed.get(column, time))

        for segment in settings.live_segments:
            if segment.last >= needed_from or segment.wall[1] >= before_wall_time_us:
                break
            first = segment.last + 1
            for column, (_, time) in segment.times.items():
                remember(column, time)
        # Commits with files of their own come after all segments.
        for number in range(first, min(last + 1, needed_from) if first > settings.covered else first):
            commit = reader.commit(number)
            if commit.wall_time >= before_wall_time_us:
                break
            first = number + 1
            for chunk in commit.chunks:
                for column, stats in chunk.times.items():
                    if stats.max is not None:
                        remember(column, stats.max)
        if first > settings.first:
            category.replace_settings(replace(settings, first=first, removed_max_time=removed))
    return first - settings.first


def begin_at(category: Category, first: int, settings: Settings, removed_max_time: Mapping[str, int]) -> None:
    """Let a category begin anew with the commit that follows, and with other columns.

    Old commits keep their files, with the columns that they had; but nobody asks for them any more.
    """
    with category.storage.lock():
        latest = category.latest()
        if first <= latest and first == category.settings.first:
            return  # it has, and commits have followed
        if first != latest + 1:
            raise LogError(
                f"the category cannot begin anew with commit {first}, since it ends at {latest}",
                where=f"category {category.name}",
                hint="somebody else writes to it: stop that first",
            )
        stored = category.settings
        category.replace_settings(
            replace(
                settings,
                first=first,
                removed_max_time=removed_max_time,
                segments=stored.segments,
                owner=stored.owner,
            )
        )


def clear(category: Category, below: int) -> int:
    """Remove the files of the commits before `below` that were retired; how many commits those were.

    Oldest first, and the record of a commit after its rows: what a crash leaves is still one run of commits
    that ends at `below`, which the next call finds. A segment is no longer listed before its file goes.
    """
    storage, reader = category.storage, category.reader()
    with storage.lock():
        category.refresh()
        settings = category.settings
        below = min(below, settings.first)
        segments = [segment for segment in settings.segments if segment.last < below]
        if segments:
            category.replace_settings(replace(settings, segments=settings.segments[len(segments) :]))
    for segment in segments:
        storage.remove(segment_path(segment.file))
    start = below
    while start and storage.exists(commit_path(start - 1)):
        start -= 1
    for number in range(start, below):
        for file in reader.commit(number).files:
            storage.remove(data_path(file))
        storage.remove(commit_path(number))
    return below - start + sum(segment.commits for segment in segments)


def sweep(category: Category, grace_seconds: float, now: float) -> list[str]:
    """Remove files that nothing refers to once they are old, and records of removed or compacted commits."""
    # List first: a file that is published after the listing is found in the commits read after it.
    listed = [file for file in category.storage.files() if now - file.modified > grace_seconds]
    reader = category.reader()
    with category.storage.lock():  # so that nobody takes away the commits that are read here
        last = category.latest()
        settings = category.settings
        commits = (reader.commit(number) for number in range(settings.covered + 1, last + 1))
        live = {data_path(file) for commit in commits for file in commit.files}
        live |= {segment_path(segment.file) for segment in settings.segments}
    removed = []
    for file in listed:
        folder, _, name = file.path.rpartition("/")
        number = commit_number(name) if folder == COMMITS else None
        if (
            name.startswith(TEMP_PREFIX)
            or (folder in (DATA, SEGMENTS) and file.path not in live)
            or (number is not None and number <= settings.covered)
        ):
            category.storage.remove(file.path)
            removed.append(file.path)
    return sorted(removed)
