"""A category that is linked elsewhere is the same there, whatever becomes of the first one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from braid.core.errors import LogError
from braid.core.owner import Owner
from braid.log import Log
from braid.log.linking import link
from tests.home.killed import Killed, Mortal
from tests.log.crashing import EAGER
from tests.log.samples import typed
from tests.log.test_compaction import NOW, everything, fill
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_linked_commits_stay_as_they_were(memory_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    log, other = Log(memory_path / "log"), Log(memory_path / "other")
    category = typed(log)
    fill(category, rng.randint(0, 40), seed)
    for _ in range(rng.randint(0, 3)):
        category.compact(EAGER, NOW)
    if rng.random() < 0.5:
        category.retain(NOW, rng.randint(0, category.latest() + 1))
    last = rng.randint(category.settings.covered, category.latest())
    fill(category, 3, seed + 1)
    linked = link(category, other, "copy.left", last, Owner("copy", "left"))
    before = everything(other.open("copy.left").reader())
    assert (linked.latest(), linked.first) == (last, category.first)
    assert linked.removed_max_time == category.removed_max_time
    commits, rows = everything(category.reader())
    assert before[0] == [commit for commit in commits if commit.id <= last]
    assert before[1] == [row for row in rows if row[0] <= last]

    # What happens to one of them does not concern the other.
    while category.compact(EAGER, NOW):
        continue
    category.retain(NOW, category.latest())
    category.sweep(0.0)
    linked = other.open("copy.left")
    assert everything(linked.reader()) == before
    log.drop(category.name)
    fill(linked, 2, seed)
    while linked.compact(EAGER, NOW):
        continue
    again = everything(other.open("copy.left").reader())
    assert [row for row in again[1] if row[0] <= last] == before[1]
    assert linked.owner == Owner("copy", "left")


def test_whoever_is_killed_has_made_no_category(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mortal = Mortal(monkeypatch)
    log, other = Log(memory_path / "log"), Log(memory_path / "other")
    category = typed(log)
    fill(category, 5)
    for steps in range(200):
        try:
            with mortal.within(steps):
                link(category, other, "copy", category.latest())
            break
        except Killed:
            assert not other.has("copy") or everything(other.open("copy").reader()) == everything(
                category.reader()
            )
            if other.has("copy"):
                other.drop("copy")
    assert 10 < steps < 199
    assert everything(other.open("copy").reader()) == everything(category.reader())


def test_it_cannot_end_within_a_segment_or_be_there_twice(memory_path: Path) -> None:
    log = Log(memory_path / "log")
    category = typed(log)
    fill(category, 30)
    while category.compact(EAGER, NOW):
        continue
    with pytest.raises(LogError, match="it cannot end at commit 0"):
        link(category, log, "copy", 0)
    link(category, log, "copy", category.latest())
    with pytest.raises(LogError, match="'copy' exists"):
        link(category, log, "copy", category.latest())
