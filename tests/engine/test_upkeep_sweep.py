"""Sweeps: what was left behind goes once it is old, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

from braid.engine.upkeep_sweep import GRACE, sweep_application, sweep_counts, sweep_home, sweep_table
from braid.home.files import write_json
from braid.home.paths import Home

NOW = 2_000_000_000.0


def leave(path: Path, *, old: bool, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    at = NOW - (GRACE + 1 if old else GRACE - 1)
    os.utime(path, (at, at))
    return path


def test_what_killed_processes_leave_in_an_application_goes_when_old(home: Home) -> None:
    app = home.application("a")
    gone = [
        leave(app.root / ".status.json.0a1b2c3d", old=True),
        leave(app.root / "control" / ".j.pacing.json.0a1b2c3d", old=True),
        leave(app.root / "staging" / "s" / "x.arrow", old=True),
    ]
    stays = [
        leave(app.root / ".status.json.ffffffff", old=False),
        leave(app.root / "control" / "j.pacing.json", old=True),
        leave(app.root / "run.lock", old=True),
        leave(app.root / "staging" / "s" / "y.arrow", old=False),
        leave(app.counts_folder / "s.3.json", old=True),
    ]
    assert sorted(sweep_application(app, NOW)) == sorted(gone)
    assert all(path.exists() for path in stays)
    assert sweep_counts(app, NOW) == [stays[-1]]


def test_a_category_that_was_being_dropped_goes(home: Home) -> None:
    trash = home.root / "log" / ".tmp-0123"
    leave(trash / "category.json", old=True)
    os.utime(trash, (NOW - GRACE - 1,) * 2)
    write_json(home.root / "log" / "c" / "category.json", {})
    assert sweep_home(home, NOW) == [trash]
    assert [path.name for path in (home.root / "log").iterdir()] == ["c"]


def test_staged_files_that_a_commit_has_still_to_move_stay(tmp_path: Path) -> None:
    """A commit is durable before its files are moved, and a restart moves them."""
    table = tmp_path / "lake"
    named, orphan = (leave(table / "_staging" / f"{name}.tmp", old=True) for name in ("a", "b"))
    young = leave(table / "_staging" / "c.tmp", old=False)
    leave(table / "_commits" / "s-00000009.json", old=True, text=json.dumps({"b.tmp": "dt=1/x"}))
    leave(table / "_commits" / "s-00000010.json", old=True, text=json.dumps({"a.tmp": "dt=1/y"}))
    assert sweep_table(table, NOW) == [orphan]
    assert named.exists()
    assert young.exists()


def test_unfinished_records_of_a_table_go(tmp_path: Path) -> None:
    unfinished = leave(tmp_path / "_commits" / ".0a1b.tmp", old=True)
    young = leave(tmp_path / "_commits" / ".2c3d.tmp", old=False)
    lock = leave(tmp_path / "_commits" / ".lock", old=True)
    assert sweep_table(tmp_path, NOW) == [unfinished]
    assert young.exists()
    assert lock.exists()
