"""Dropping: what goes and what stays, and who objects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from braid import api
from braid.core.errors import BraidError, LogError, RunError
from braid.core.owner import Owner
from braid.home.files import write_json
from braid.home.paths import Home
from braid.plan.serialise import plan_to_json
from tests.log.samples import rows

WRITER = """
CREATE APPLICATION writer;
CREATE INPUT TABLE l (id bigint, t timestamp) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp) FROM SCRIBE("r") TIME t;
CREATE VIEW j AS SELECT l.id AS id FROM l JOIN r ON l.id = r.id
  AND r.t BETWEEN l.t AND l.t + INTERVAL '1 minute';
CREATE TABLE once AS SELECT * FROM j STORAGE SCRIBE(category = "once");
CREATE TABLE lake AS SELECT id, t FROM l STORAGE HIVE(table = "lake");
"""
READER = """
CREATE APPLICATION reader;
CREATE INPUT TABLE o (id bigint) FROM SCRIBE("once");
CREATE TABLE copy AS SELECT * FROM o STORAGE SCRIBE(category = "copy");
"""


def started(home: Home, text: str) -> None:
    """An application that has run: its plan, and the categories that it reads and writes."""
    plan = api.compile_text(text).plan
    app = home.application(plan.application)
    write_json(app.plan_file, plan_to_json(plan))
    names = [app.dead_letter]
    for stage in plan.stages:
        names += [name for kind, name in stage.sources() if kind == "scribe"]
        names += [stage.sink.name] if stage.sink.kind.connector.logged else []
    for name in names:
        home.log().create(name, rows(1).schema, shards=1)


@pytest.fixture
def both(home: Home) -> Home:
    started(home, WRITER)
    started(home, READER)
    home.log().create("stray", rows(1).schema, shards=1).append(rows(5))
    return home


def test_a_category_that_nobody_uses_goes(both: Home) -> None:
    assert api.drop_category("stray", both, dry_run=True).categories["stray"] > 0
    assert "stray" in both.log().categories()
    api.drop_category("stray", both)
    assert "stray" not in both.log().categories()
    with pytest.raises(LogError, match="does not exist"):
        api.drop_category("stray", both)


@pytest.mark.parametrize(
    ("category", "why"),
    [
        ("l", "application 'writer' reads category 'l'"),
        ("copy", "application 'reader' writes category 'copy'"),
        ("reader.dead_letter", "application 'reader' writes"),
    ],
)
def test_a_category_that_is_used_stays_and_its_user_is_named(both: Home, category: str, why: str) -> None:
    with pytest.raises(RunError, match=why):
        api.drop_category(category, both)
    assert category in both.log().categories()


def test_an_application_goes_with_what_it_writes(both: Home) -> None:
    with pytest.raises(RunError, match="application 'reader' reads category 'once'"):
        api.drop_application("writer", both)
    dropped = api.drop_application("reader", both)
    assert set(dropped.categories) == {"copy", "reader.dead_letter"}
    assert [app.name for app in both.applications()] == ["writer"]
    internal = {name for name in both.log().categories() if name.startswith("writer.")}
    dropped = api.drop_application("writer", both)
    assert set(dropped.categories) == {"once", *internal}
    assert dropped.kept == ("hive lake",)
    assert both.log().categories() == ["l", "r", "stray"]
    with pytest.raises(RunError, match="application 'writer' does not exist"):
        api.drop_application("writer", both)


def test_its_data_may_stay(both: Home) -> None:
    """Then those who read it go on."""
    dropped = api.drop_application("writer", both, keep_data=True)
    assert "category once" in dropped.kept
    assert {"once", "writer.dead_letter"} <= set(both.log().categories())
    assert all(name not in both.log().categories() for name in dropped.categories)


def test_what_runs_is_not_dropped(both: Home) -> None:
    with both.application("reader").running(), pytest.raises(RunError, match="running already"):
        api.drop_application("reader", both)
    assert "copy" in both.log().categories()


def test_nothing_goes_while_an_application_cannot_be_read(both: Home) -> None:
    both.application("reader").plan_file.write_text("{")
    with pytest.raises(BraidError):
        api.drop_category("stray", both)
    assert "stray" in both.log().categories()


def test_what_another_application_has_taken_over_is_not_in_the_way(both: Home) -> None:
    other = WRITER.replace("APPLICATION writer", "APPLICATION other").replace("lake", "sea")
    started(both, other)
    log = both.log()
    log.open("once").replace_settings(replace(log.open("once").settings, owner=Owner("other", "once")))
    gone = api.drop_application("writer", both)
    assert "once" not in gone.categories
    assert log.has("once")
    assert "writer" not in [one.name for one in both.applications()]
