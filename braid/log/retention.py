"""Upkeep of a category: removing old commits, and files that no commit refers to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from braid.log.layout import CATEGORY_FILE, COMMITS, DATA, TEMP_PREFIX, commit_number, commit_path, data_path

if TYPE_CHECKING:
    from braid.log.category import Category
    from braid.log.records import Commit


def retain(category: Category, before_wall_time_us: int, needed_from: int) -> int:
    """Remove the commits that are both older than a wall-clock time and below `needed_from`.

    `first` moves before anything is deleted, so that no reader starts on a commit that is about to go. What
    a crash leaves behind in between is below `first`, which a sweep removes.
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
    for commit in old:
        storage.remove(commit_path(commit.id))
        for file in commit.files:
            storage.remove(data_path(file))
    return len(old)


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
