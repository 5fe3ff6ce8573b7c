"""Records of a table's commits: created once, folded when they are old, and never forgotten."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.core.errors import RunError
from braid.home.locks import exclusive
from braid.home.table_commits import FoldedCommits, TableCommits
from braid.log import durable
from tests.home.killed import Killed, killed_at

MANY = 10**9


@pytest.fixture
def commits(tmp_path: Path) -> TableCommits:
    return TableCommits(tmp_path)


def publish(folder: Path, stage: str, numbers: range) -> None:
    for number in numbers:
        name = f"{stage}{number}.tmp"
        assert TableCommits(folder).publish(stage, number, {name: f"dt=1/{name}"}) is not None


def listed(folder: Path) -> set[str]:
    return {path.name for path in (folder / "_commits").iterdir()} - {".lock"}


def test_old_records_are_folded_and_the_last_ones_of_each_stage_stay(
    tmp_path: Path, commits: TableCommits
) -> None:
    publish(tmp_path, "a", range(7))
    publish(tmp_path, "a-b", range(3, 6))
    assert commits.fold(MANY, kept=2, least=6) == 6
    stay = {"a-00000005.json", "a-00000006.json", "a-b-00000004.json", "a-b-00000005.json"}
    assert listed(tmp_path) == {*stay, "folded.json"}
    assert json.loads((tmp_path / "_commits" / "folded.json").read_text()) == {
        "format": 1,
        "stages": {"a": [[0, 4]], "a-b": [[3, 3]]},
    }
    assert commits.fold(MANY, kept=2, least=1) == 0
    publish(tmp_path, "a", range(9, 12))
    assert commits.fold(2, kept=0, least=1) == 2
    assert commits.fold(MANY, kept=0, least=1) == 3  # the last of each stage stays in any case
    assert (commits.last("a"), commits.last("a-b"), commits.last("b")) == (11, 5, -1)
    assert listed(tmp_path) == {"a-00000011.json", "a-b-00000005.json", "folded.json"}


def test_it_waits_until_it_pays(tmp_path: Path, commits: TableCommits) -> None:
    assert commits.fold(MANY) == 0
    publish(tmp_path, "s", range(199))
    before = listed(tmp_path)
    assert commits.fold(MANY) == 0
    assert listed(tmp_path) == before
    publish(tmp_path, "s", range(199, 200))
    assert commits.fold(MANY) == 100


def test_what_is_folded_is_not_published_again(tmp_path: Path, commits: TableCommits) -> None:
    publish(tmp_path, "s", range(5))
    publish(tmp_path, "s", range(8, 10))
    commits.fold(MANY, kept=1, least=1)
    before = listed(tmp_path)
    assert [commits.publish("s", number, {"x.tmp": "x"}) for number in range(5)] == [None] * 5
    assert commits.publish("s", 9, {"x.tmp": "x"}) == {"s9.tmp": "dt=1/s9.tmp"}
    assert listed(tmp_path) == before
    # These were never there, and neither was another stage.
    assert commits.publish("s", 6, {"x.tmp": "x"}) == {"x.tmp": "x"}
    assert commits.publish("t", 0, {"y.tmp": "y"}) == {"y.tmp": "y"}


def test_a_commit_that_has_not_moved_all_that_it_names_keeps_its_record(
    tmp_path: Path, commits: TableCommits
) -> None:
    publish(tmp_path, "s", range(5))
    (tmp_path / "_staging").mkdir()
    staged = tmp_path / "_staging" / "s2.tmp"
    staged.touch()
    assert commits.fold(MANY, kept=1, least=1) == 3
    assert commits.publish("s", 2, {}) == {"s2.tmp": "dt=1/s2.tmp"}
    staged.unlink()
    assert commits.fold(MANY, kept=1, least=1) == 1


def test_one_process_folds_at_a_time(tmp_path: Path, commits: TableCommits) -> None:
    publish(tmp_path, "s", range(5))
    with exclusive(tmp_path / "_commits" / ".lock"):
        assert commits.fold(MANY, kept=1, least=1) == 0
    assert commits.fold(MANY, kept=1, least=1) == 4


@pytest.mark.parametrize("step", range(10))
def test_whoever_folds_may_be_killed_at_any_step(
    tmp_path: Path, commits: TableCommits, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps: write, replace and sync the list, then remove seven records."""
    publish(tmp_path, "s", range(4))
    publish(tmp_path, "t", range(5))
    with monkeypatch.context() as patch:
        killed_at(step, patch)
        with pytest.raises(Killed):
            commits.fold(MANY, kept=1, least=1)
    check_nothing_is_forgotten(tmp_path)
    commits.fold(MANY, kept=1, least=1)
    check_nothing_is_forgotten(tmp_path)
    finished = {name for name in listed(tmp_path) if not name.startswith(".")}
    assert finished == {"s-00000003.json", "t-00000004.json", "folded.json"}


def check_nothing_is_forgotten(folder: Path) -> None:
    commits = TableCommits(folder)
    assert (commits.last("s"), commits.last("t")) == (3, 4)
    for stage, count in (("s", 4), ("t", 5)):
        for number in range(count):
            name = f"{stage}{number}.tmp"
            assert commits.publish(stage, number, {"x.tmp": "x"}) in (None, {name: f"dt=1/{name}"})
        assert commits.publish(stage, count - 1, {}) is not None


@pytest.mark.parametrize("step", range(5))
def test_whoever_repeats_an_old_commit_may_be_killed_at_any_step(
    tmp_path: Path, commits: TableCommits, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that was created again, and not removed again, counts for nothing. Steps: write, link, remove
    and sync of the record, and to remove it."""
    publish(tmp_path, "s", range(4))
    commits.fold(MANY, kept=1, least=1)
    with monkeypatch.context() as patch:
        killed_at(step, patch)
        with pytest.raises(Killed):
            commits.publish("s", 1, {"x.tmp": "x"})
    assert commits.publish("s", 1, {"y.tmp": "y"}) is None
    assert commits.last("s") == 3
    commits.fold(MANY, kept=1, least=1)
    assert {name for name in listed(tmp_path) if not name.startswith(".")} == {
        "s-00000003.json",
        "folded.json",
    }


@pytest.mark.parametrize(
    ("owner", "step"), [(durable, "link"), (TableCommits, "_folded"), (TableCommits, "read")]
)
def test_a_record_that_is_folded_while_a_commit_is_repeated(
    tmp_path: Path, commits: TableCommits, owner: object, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, "s", range(4))
    real = getattr(owner, step)

    def folded_before(*arguments: object) -> object:
        monkeypatch.setattr(owner, step, real)
        assert TableCommits(tmp_path).fold(MANY, kept=1, least=1) == 3
        return real(*arguments)

    monkeypatch.setattr(owner, step, folded_before)
    assert commits.publish("s", 1, {"x.tmp": "x"}) is None
    assert commits.recorded() == {"s": [3]}


def test_damaged_records_are_named(tmp_path: Path, commits: TableCommits) -> None:
    publish(tmp_path, "s", range(4))
    record = tmp_path / "_commits" / "s-00000000.json"
    for damaged in ("", "[]"):
        record.write_text(damaged)
        with pytest.raises(RunError, match=r"s-00000000\.json: not the record of a commit"):
            commits.fold(MANY, kept=1, least=1)
    record.unlink()
    (tmp_path / "_commits" / "folded.json").write_text('{"format": 2, "stages": {}}')
    with pytest.raises(RunError, match=r"folded\.json: format is 2"):
        commits.last("s")


@given(st.lists(st.lists(st.integers(0, 40), max_size=20), max_size=5))
def test_a_list_has_what_was_put_into_it(parts: list[list[int]]) -> None:
    folded = FoldedCommits()
    for part in parts:
        folded = folded.including(("s", number) for number in part)
    numbers = {number for part in parts for number in part}
    assert {number for number in range(50) if folded.has("s", number)} == numbers
    assert folded.last("s") == max(numbers, default=-1)
    ranges = folded.stages.get("s", [])
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(ranges))
