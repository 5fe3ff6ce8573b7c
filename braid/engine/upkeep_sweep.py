"""Files that nobody will ask for again: of tasks that failed, and of processes that were killed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from braid.home.paths import AppHome, Home
from braid.home.table_commits import COMMITS, LOCK_FILE, STAGING, TableCommits
from braid.log.layout import TEMP_PREFIX

GRACE = 86_400.0
"""Seconds for which a file is left alone that nothing refers to: far longer than a micro-batch takes, at the
end of which something does."""
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}")
"""Names of files that `braid.home.files.write_json` has not renamed."""


def sweep_home(home: Home, now: float) -> list[Path]:
    """Remove what failed or killed processes have left beside the categories and savepoints."""
    found = [path for folder in (Path(home.log_root), home.savepoints) for path in _entries(folder)]
    folders = [path for path in found if path.name.startswith(TEMP_PREFIX) and _old(path, now)]
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    return folders


def sweep_application(home: AppHome, now: float) -> list[Path]:
    """Remove what failed or killed processes have left in the folder of an application."""
    records = [
        home.root,
        home.root / "control",
        home.savepoints,
        home.counts_folder.parent,
        home.counts_folder,
    ]
    found = [path for folder in records for path in _entries(folder) if _UNFINISHED.fullmatch(path.name)]
    found += [path for stage in _entries(home.root / "staging") for path in _entries(stage)]
    return _remove(found, now)


def sweep_counts(home: AppHome, now: float) -> list[Path]:
    """Remove counters that nobody has taken. Only for a run that has gone on for longer than the grace
    period: its driver takes what it can, also of the run before."""
    return _remove(_entries(home.counts_folder), now)


def sweep_table(folder: Path, now: float) -> list[Path]:
    """Remove staged files of a table that no commit will move into it, and unfinished records.

    Of each stage, the last commit may have been killed before it had moved all that it names.
    """
    hidden = (folder / COMMITS).glob(".*")
    found = [path for path in hidden if path.name != LOCK_FILE]
    staged = [path for path in _entries(folder / STAGING) if _old(path, now)]
    if staged:
        commits = TableCommits(folder)
        last = [commits.read(stage, numbers[-1]) for stage, numbers in commits.recorded().items()]
        named = {name for moves in last for name in moves or ()}
        found += [path for path in staged if path.name not in named]
    return _remove(found, now)


def _remove(paths: Iterable[Path], now: float) -> list[Path]:
    old = [path for path in paths if _old(path, now)]
    for path in old:
        path.unlink(missing_ok=True)
    return old


def _old(path: Path, now: float) -> bool:
    try:
        return now - path.stat().st_mtime > GRACE
    except FileNotFoundError:
        return False


def _entries(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.iterdir())) if folder.is_dir() else iter(())
