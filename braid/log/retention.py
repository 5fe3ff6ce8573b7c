"""Upkeep of a category: removing old commits, and files that no commit refers to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from braid.log.layout import CATEGORY_FILE, COMMITS, DATA, TEMP_PREFIX, commit_number, commit_path, data_path

if TYPE_CHECKING:
    from braid.log.category import Category
    from braid.log.records import Commit


def retain(category: Category, before_wall_time_us: int, needed_from: int) -> int:
    """Remove the commits that are both older than a wall-clock time and below `needed_from`, at once."""
    retired = retire(category, before_wall_time_us, needed_from)
    clear(category, category.first)
    return retired


def retire(category: Category, before_wall_time_us: int, needed_from: int) -> int:
    """Let nobody begin to read what `retain` would remove: move `first`, and leave the files to `clear`.

    A reader may have looked at `first` just before and be about to read, so files go a while later.
    """
    storage, reader = category.storage, category.reader()
    with storage.lock():
        last = category.latest()
        old: list[Commit] = []
        for number in range(category.first, min(last + 1, needed_from)):
            commit = reader.commit(number)
            if commit.wall_time >= before_wall_time_us:
                break
            old.append(commit)
        if not old:
            return 0
        removed = dict(category.removed_max_time)
        for commit in old:
            for chunk in commit.chunks:
                for name, stats in chunk.times.items():
                    if stats.max is not None:
                        removed[name] = max(stats.max, removed.get(name, stats.max))
        settings = replace(category.settings, first=old[-1].id + 1, removed_max_time=removed)
        storage.replace(CATEGORY_FILE, settings.seal())
        category.settings = settings
    return len(old)


def clear(category: Category, below: int) -> int:
    """Remove the files of the commits before `below` that were retired; how many commits those were.

    Oldest first, and the record of a commit after its rows: what a crash leaves is still one run of commits
    that ends at `below`, which the next call finds.
    """
    storage, reader = category.storage, category.reader()
    below = min(below, category.first)
    start = below
    while start and storage.exists(commit_path(start - 1)):
        start -= 1
    for number in range(start, below):
        for file in reader.commit(number).files:
            storage.remove(data_path(file))
        storage.remove(commit_path(number))
    return below - start


def sweep(category: Category, grace_seconds: float, now: float) -> list[str]:
    """Remove data and temporary files that no commit refers to, and commits below `first`, once old."""
    # List first: a file that is published after the listing is found in the commits read after it.
    listed = [file for file in category.storage.files() if now - file.modified > grace_seconds]
    reader = category.reader()
    with category.storage.lock():  # so that retention does not take away the commits that are read here
        last = category.latest()
        commits = (reader.commit(number) for number in range(category.first, last + 1))
        live = {data_path(file) for commit in commits for file in commit.files}
    removed = []
    for file in listed:
        folder, _, name = file.path.rpartition("/")
        number = commit_number(name) if folder == COMMITS else None
        if (
            name.startswith(TEMP_PREFIX)
            or (folder == DATA and file.path not in live)
            or (number is not None and number < category.first)
        ):
            category.storage.remove(file.path)
            removed.append(file.path)
    return sorted(removed)
