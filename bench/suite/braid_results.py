"""Braid's results as they became readable: commits of the output category, by the time of their record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from braid.home.paths import Home

CATEGORY = "result"


def commits(home: Path) -> dict[int, float]:
    """When each commit of the output category became readable, in seconds since 1970."""
    folder = home / "log" / CATEGORY / "commits"
    return {int(path.stem): path.stat().st_mtime for path in folder.glob("[0-9]*.json")}


def moments(home: Path, period: int) -> npt.NDArray[np.float64]:
    """Rows of (number of publication, moment, count), over results with a match."""
    found = []
    reader = Home.at(home).log().open(CATEGORY).reader()
    for commit, moment in sorted(commits(home).items()):
        for batch in reader.rows(commit):
            left, right = batch["l_id"], batch["r_id"]
            both = np.maximum(left.filter(right.is_valid()).to_numpy(), right.drop_null().to_numpy())
            numbers, counts = np.unique(both // period, return_counts=True)
            found.append(np.column_stack([numbers, np.full(len(numbers), moment), counts]))
    return np.concatenate(found) if found else np.empty((0, 3))
