"""The folder of a savepoint: there as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from braid.core.errors import RunError
from braid.engine.upkeep_sweep import GRACE, sweep_home
from braid.home.paths import Home
from braid.home.saved import Saved, SavedFolder, SavedQuery, find_saved, saved_names

SAVED = Saved(
    name="one",
    application="app",
    taken=1.5,
    plan={"schema_version": 2},
    queries={"j": SavedQuery(batch=7, shards=3, partitions=1, commit=9)},
)


def saved(home: Home) -> SavedFolder:
    folder = SavedFolder.draft(home, "one")
    folder.write(SAVED)
    return folder.publish(home, "one")


def test_a_draft_is_no_savepoint_until_it_has_its_name(home: Home) -> None:
    draft = SavedFolder.draft(home, "one")
    draft.write(SAVED)
    assert saved_names(home) == []
    draft.publish(home, "one")
    folder, found = find_saved(home, "one")
    assert found == SAVED
    assert found.pending == 0
    assert saved_names(home) == ["one"]
    folder.drop()
    assert list(home.savepoints.iterdir()) == []


def test_one_that_is_not_there_is_named_with_those_that_are(home: Home) -> None:
    with pytest.raises(RunError, match="braid savepoint APP"):
        find_saved(home, "two")
    saved(home)
    with pytest.raises(RunError, match=r"no savepoint 'two'(.|\n)*savepoints: one"):
        find_saved(home, "two")


def test_a_damaged_one_is_named(home: Home) -> None:
    path = saved(home).root / "savepoint.json"
    path.write_bytes(path.read_bytes().replace(b"app", b"apq"))
    with pytest.raises(RunError, match="savepoint 'one' cannot be read"):
        find_saved(home, "one")


def test_what_nobody_has_finished_is_swept(home: Home, tmp_path: Path) -> None:
    saved(home)
    draft = SavedFolder.draft(home, "two")
    changed = draft.root.stat().st_mtime
    assert sweep_home(home, changed + 1) == []
    assert sweep_home(home, changed + GRACE + 1) == [draft.root]
    assert saved_names(home) == ["one"]
