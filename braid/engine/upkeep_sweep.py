"""Files that nobody will ask for again: of tasks that failed, and of processes that were killed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from braid.home.paths import AppHome, Home
from braid.log.layout import TEMP_PREFIX

GRACE = 86_400.0
"""Seconds for which a file is left alone that nothing refers to: far longer than a micro-batch takes, at the
end of which something does."""
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}")
"""Names of files that `braid.home.files.write_json` has not renamed."""
_TABLE_COMMIT = re.compile(r"(.+)-(\d+)\.json")


def sweep_home(home: Home, now: float) -> list[Path]:
    """Remove what failed or killed processes have left beside the categories."""
    log = Path(home.log_root)
    folders = [path for path in _entries(log) if path.name.startswith(TEMP_PREFIX) and _old(path, now)]
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    return folders


def sweep_application(home: AppHome, now: float) -> list[Path]:
    """Remove what failed or killed processes have left in the folder of an application."""
    records = (home.root, home.root / "control", home.counts_folder)
    found = [path for folder in records for path in _entries(folder) if _UNFINISHED.fullmatch(path.name)]
    found += [path for stage in _entries(home.root / "staging") for path in _entries(stage)]
    return _remove(found, now)


def sweep_counts(home: AppHome, now: float) -> list[Path]:
    """Remove counters that nobody has taken. Only for a run that has gone on for longer than the grace
    period: its driver takes what it can, also of the run before."""
    return _remove(_entries(home.counts_folder), now)


def sweep_table(folder: Path, now: float) -> list[Path]:
    """Remove staged files of a table that no commit will move into it.

    Of each stage, the last commit may have been killed before it had moved all that it names.
    """
    staged = [path for path in _entries(folder / "_staging") if _old(path, now)]
    if not staged:
        return []
    last: dict[str, tuple[int, Path]] = {}
    for path in _entries(folder / "_commits"):
        if found := _TABLE_COMMIT.fullmatch(path.name):
            last[found[1]] = max((int(found[2]), path), last.get(found[1], (-1, path)))
    named = {name for _, path in last.values() for name in json.loads(path.read_text())}
    return _remove([path for path in staged if path.name not in named], now)


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
