"""A category under another name, or in another log: the same files, without a copy of their bytes."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

from braid.core.errors import LogError
from braid.core.owner import Owner
from braid.log.category import Category
from braid.log.layout import (
    CATEGORY_FILE,
    COMMITS,
    DATA,
    SEGMENTS,
    TEMP_PREFIX,
    check_name,
    commit_path,
    data_path,
    segment_path,
)
from braid.log.log import Log


def link(source: Category, log: Log, name: str, last: int, owner: Owner | None = None) -> Category:
    """Have the commits of a category up to `last` in a new one, too, under the same numbers.

    Files of the log never change, so a second name for each of them is all it takes. What retention or
    compaction does to one of the two is nothing to the other. The caller sees to it that neither is at work
    on `source` meanwhile. The new one gets its name last: what is killed before leaves a folder to be swept.

    Parameters
    ----------
    source
        The category.
    log, name
        Where, and how the new one is called.
    last
        The last commit that it is to have.
    owner
        Who writes the new one.
    """
    source.refresh()
    settings = source.settings
    if last < settings.covered:
        raise LogError(
            f"it cannot end at commit {last}: commits up to {settings.covered} are in one segment, or gone",
            where=f"category {source.name}",
            hint="try again",
        )
    final = log.storage.within(check_name(name, "category"))
    if final.exists(CATEGORY_FILE):
        raise LogError(f"category {name!r} exists", where=final.root, hint="drop it first")
    draft = f"{TEMP_PREFIX}{uuid.uuid4().hex}"
    target = log.storage.within(draft)
    folders = (COMMITS, DATA, SEGMENTS)
    for folder in folders:
        target.make_folder(folder)
    reader = source.reader()
    paths = [segment_path(segment.file) for segment in settings.live_segments]
    for number in range(settings.covered + 1, last + 1):
        paths += [data_path(file) for file in reader.commit(number).files]
        paths.append(commit_path(number))
    for path in paths:
        target.link_from(source.storage, path)
    for folder in folders:
        target.sync(folder)
    linked = replace(settings, segments=settings.live_segments, owner=owner)
    target.create(CATEGORY_FILE, linked.seal())
    if Path(final.root).exists():
        log.storage.remove_folder(name)  # whoever was to make it was killed before it was one
    log.storage.rename_folder(draft, name)
    return Category(name, final, linked)
