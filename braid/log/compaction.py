"""Compaction: small commits become segments, and small segments larger ones, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from braid.core.times import SECOND
from braid.log.layout import commit_path, data_path, segment_path
from braid.log.records import Commit
from braid.log.segment_file import SegmentFile
from braid.log.segment_writer import merge_segments, write_commits
from braid.log.segments import SegmentEntry

if TYPE_CHECKING:
    from braid.log.category import Category


@dataclass(frozen=True)
class CompactionConfig:
    """When to compact what.

    Parameters
    ----------
    min_age
        Commits younger than this, in microseconds, keep their own files: they are being read as they are.
    keep_commits
        So do this many of the newest commits, however old they are.
    min_commits
        Fewer old commits than this are not worth a segment yet, unless they have `piece_bytes`.
    piece_commits, piece_bytes
        Most commits, and about the most bytes, that one call makes a segment of.
    segment_bytes
        A segment of this size is not merged any more. As long as this stays the same, none is larger than
        this and a piece together.
    fanout
        A segment is merged with those behind it when they are this many times as large: the larger, the less
        often bytes are copied, and the more segments there are.
    """

    min_age: int = 10 * SECOND
    keep_commits: int = 8
    min_commits: int = 32
    piece_commits: int = 1024
    piece_bytes: int = 64 << 20
    segment_bytes: int = 256 << 20
    fanout: int = 4


@dataclass(frozen=True)
class Compacted:
    """What a call has done: nothing if there are no commits.

    `bytes` were written, in place of `files_before` files one, or `files_after`.
    """

    commits: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes: int = 0

    def __bool__(self) -> bool:
        return self.commits > 0


def plan_merge(config: CompactionConfig, sizes: Sequence[int]) -> int | None:
    """From which segment on all are to be merged into one, given the bytes of each; None if none are.

    Full segments are left alone. A new one takes in all that are behind the last one, so that those which are
    not full are at the end. Each of these stays for as long as those behind it together are not more than
    `fanout` times as large. So there are about `fanout` segments of each order of magnitude, and a byte is
    copied about once per order of magnitude.
    """
    start = len(sizes)
    while start and sizes[start - 1] < config.segment_bytes:
        start -= 1
    behind = sum(sizes[start:])
    if len(sizes) - start < 2:
        return None
    if behind >= config.segment_bytes:
        # No more than make a full one: many may be too small if full ones were smaller when they were made.
        while behind - sizes[start] >= config.segment_bytes:
            behind -= sizes[start]
            start += 1
        return start
    for place in range(start, len(sizes) - 1):
        behind -= sizes[place]
        if behind > config.fanout * sizes[place]:
            return place
    return None


def compact(category: Category, config: CompactionConfig, now: int) -> Compacted:
    """Do the next piece of work, if there is any: see `Category.compact`."""
    category.refresh()
    segments = category.settings.live_segments
    start = plan_merge(config, [entry.size for entry in segments])
    if start is not None:
        return _merge(category, segments[start:])
    commits = _ready(category, config, now)
    return _cut(category, commits) if commits else Compacted()


def _ready(category: Category, config: CompactionConfig, now: int) -> list[tuple[Commit, bytes]]:
    """The next piece: commits that are old enough and have files of their own, with their records."""
    last = category.latest() - config.keep_commits
    first = category.settings.covered + 1
    found: list[tuple[Commit, bytes]] = []
    size = 0
    for number in range(first, min(last, first + config.piece_commits - 1) + 1):
        path = commit_path(number)
        record = category.storage.read(path)
        commit = Commit.unseal(record, number, category.storage.full(path))
        if commit.wall_time > now - config.min_age:
            break
        found.append((commit, record))
        size += sum(entry.size for entry in commit.files.values())
        if size >= config.piece_bytes:
            return found
    return found if len(found) >= config.min_commits else []


def _cut(category: Category, commits: Sequence[tuple[Commit, bytes]]) -> Compacted:
    """Make a segment of commits."""
    entry = write_commits(category, commits)
    files = [data_path(file) for commit, _ in commits for file in commit.files]
    # Records go in ascending order, so that those which a crash leaves are the newest of them.
    old = [*(commit_path(commit.id) for commit, _ in commits), *files]
    return _exchange(category, (), entry, old)


def _merge(category: Category, sources: tuple[SegmentEntry, ...]) -> Compacted:
    """Make one segment of several."""
    entry = merge_segments(category, [SegmentFile(category.storage, source) for source in sources])
    return _exchange(category, sources, entry, [segment_path(source.file) for source in sources])


def _exchange(
    category: Category, sources: tuple[SegmentEntry, ...], entry: SegmentEntry, old: Sequence[str]
) -> Compacted:
    """Put a segment in the place of what it was made of, and then remove that.

    Until the settings are replaced nobody knows of the new file, and once they are, nobody who looks at them
    needs the old ones: a reader that misses a file looks at the settings again. What a crash leaves behind on
    either side is an orphan, which a sweep removes.
    """
    with category.storage.lock():
        category.refresh()
        settings = category.settings
        kept = settings.segments[: len(settings.segments) - len(sources)]
        follows = bool(sources) or entry.first == settings.covered + 1
        if not follows or entry.first < settings.first or settings.segments[len(kept) :] != sources:
            # Retention or another compaction was faster.
            category.storage.remove(segment_path(entry.file))
            return Compacted()
        category.replace_settings(replace(settings, segments=(*kept, entry)))
    for path in old:
        category.storage.remove(path)
    return Compacted(entry.commits, len(old), 1, entry.size)
