"""Versions of an application are kept, and forgotten when there are many."""

from __future__ import annotations

from pathlib import Path

from braid.home.paths import Home
from braid.home.versions import RETAINED, keep_version, versions


def test_a_plan_is_kept_once_and_the_oldest_are_forgotten(tmp_path: Path) -> None:
    app = Home.at(tmp_path).application("app")
    assert versions(app) == []
    for number in range(1, RETAINED + 6):
        for _ in range(2):
            keep_version(app, {"n": number}, float(number), "kept", ("one: two",))
    found = versions(app)
    assert [version.number for version in found] == list(range(6, RETAINED + 6))
    assert found[0].plan == {"n": 6}
    assert (found[0].started, found[0].verdict, found[0].changes) == (6.0, "kept", ("one: two",))


def test_going_back_is_another_version(tmp_path: Path) -> None:
    app = Home.at(tmp_path).application("app")
    for plan in ("a", "b", "a"):
        keep_version(app, {"plan": plan}, 0.0)
    assert [version.plan["plan"] for version in versions(app)] == ["a", "b", "a"]
