"""One application writes a category or a table; what is read must be there."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from braid import api
from braid.cli.main import app
from braid.core.config import AppConfig
from braid.core.errors import LogError, RunError
from braid.core.owner import NOBODY, Owner
from braid.engine.drop import drop_application
from braid.engine.ownership import check_inputs, check_outputs, claim, place_of, release
from braid.home.files import write_json
from braid.home.owners import read_owner
from braid.home.paths import AppHome, Home
from braid.log.sealed import seal
from braid.plan.physical.targets import target_of
from braid.plan.serialise import plan_to_json
from braid.plan.stages.base import Plan

SCHEMA = pa.schema([("a", pa.string())])
STORAGES = {
    "category": 'SCRIBE(category = "out")',
    "table": 'HIVE(table = "out")',
    "lookup table": 'LASER(table = "out", key = (a))',
}


def program(name: str, storage: str, source: str = "in") -> Plan:
    return api.compile_text(f"""
      CREATE APPLICATION {name};
      CREATE INPUT TABLE i (a) FROM SCRIBE("{source}");
      CREATE TABLE t AS SELECT a FROM i STORAGE {storage};
    """).plan


def started(home: Home, plan: Plan, *, owned: bool = True) -> AppHome:
    """What the start of an application leaves behind, now or before there were owners."""
    application = home.application(plan.application)
    write_json(application.plan_file, plan_to_json(plan))
    for stage in plan.stages:
        application.checkpoint(stage.name).mkdir(parents=True)
        target, owner = target_of(plan.application, stage, AppConfig()), Owner(plan.application, stage.name)
        place = place_of(home, target)
        if place.folder is None:
            home.log().create(place.name, SCHEMA, owner=owner if owned else None)
        elif owned:
            claim(home, target, owner)
        else:
            place.folder.mkdir(parents=True)
    return application


def check(home: Home, plan: Plan) -> None:
    check_outputs(home.application(plan.application), plan, AppConfig())


@pytest.mark.parametrize("owned", [True, False], ids=["owned", "from before there were owners"])
@pytest.mark.parametrize("what", STORAGES)
def test_what_one_application_writes_another_does_not(home: Home, what: str, owned: bool) -> None:
    first, second = program("first", STORAGES[what]), program("second", STORAGES[what])
    check(home, first)
    started(home, first, owned=owned)
    check(home, first)
    with pytest.raises(
        RunError, match=rf"{what} 'out' is written by application 'first' \(stage 't'\)"
    ) as said:
        check(home, second)
    assert "braid release first" in str(said.value)
    assert not home.application("second").root.exists()
    assert any("out" in text for text in release(home, "first"))
    check(home, second)
    started_again = home.application("second")
    started(home, second)
    assert started_again.checkpoint("t").exists()
    with pytest.raises(RunError, match="is written by application 'second'"):
        check(home, first)


def test_two_that_wrote_one_category_before_are_told_by_who_starts_first(home: Home) -> None:
    first, second = (program(name, STORAGES["category"]) for name in ("first", "second"))
    started(home, first, owned=False)
    started(home, second, owned=False)
    check(home, second)
    home.log().create("out", SCHEMA, owner=Owner("second", "t"))
    with pytest.raises(RunError, match="is written by application 'second'"):
        check(home, first)


def test_a_category_is_claimed_once_however_many_try(home: Home) -> None:
    log = home.log()
    log.create("out", SCHEMA, owner=Owner("first", "t"))
    with pytest.raises(LogError, match=r"application 'first' \(stage 't'\) writes it") as said:
        log.create("out", SCHEMA, owner=Owner("second", "t"))
    assert "braid release first" in str(said.value)
    renamed = log.create("out", SCHEMA, owner=Owner("first", "u"))
    assert renamed.owner == log.open("out").owner == Owner("first", "u")
    assert log.create("out", SCHEMA).owner == Owner("first", "u")
    renamed.append(pa.table({"a": ["x"]}))
    assert log.open("out").owner == Owner("first", "u")
    renamed.release()
    assert log.open("out").owner == NOBODY
    assert log.create("out", SCHEMA, owner=Owner("second", "t")).owner == Owner("second", "t")
    assert log.create("open", raw=True).owner is None


def test_settings_without_an_owner_are_read(home: Home) -> None:
    category = home.log().create("old", SCHEMA, owner=Owner("first", "t"))
    path = Path(category.storage.full("category.json"))
    record = json.loads(path.read_bytes())["record"]
    assert record.pop("owner") == ["first", "t"]
    path.write_bytes(seal(record))
    assert home.log().open("old").owner is None


def test_an_application_that_runs_keeps_what_it_owns(home: Home) -> None:
    application = started(home, program("first", STORAGES["category"]))
    with application.running(), pytest.raises(RunError, match="is running"):
        release(home, "first")
    result = CliRunner().invoke(app, ["release", "first", "--home", str(home.root)])
    assert (result.exit_code, result.stdout) == (0, "released category out\n")
    result = CliRunner().invoke(app, ["release", "first", "--home", str(home.root)])
    assert (result.exit_code, "owns nothing" in result.stderr) == (1, True)


def test_the_owner_of_a_folder_is_no_parquet_file(home: Home) -> None:
    plan = program("first", STORAGES["table"])
    started(home, plan)
    folder = home.root / "warehouse" / "out"
    assert [path.name for path in folder.iterdir()] == ["_owner.json"]
    assert read_owner(folder) == Owner("first", "t")


def test_a_missing_input_is_an_error_with_near_names(home: Home) -> None:
    for name in ("clicks", "other.result"):
        home.log().create(name, raw=True)
    plan = program("reader", STORAGES["category"], source="clikcs")
    application = home.application("reader")
    with pytest.raises(RunError, match="no category 'clikcs' to read") as said:
        check_inputs(application, plan)
    text = str(said.value)
    assert "did you mean 'clicks' instead of 'clikcs'?" in text
    assert "braid publish clikcs FILE" in text
    assert "--create" in text
    assert "Categories: clicks, other.result" in text
    assert not home.log().has("clikcs")
    check_inputs(application, plan, create=True)
    assert home.log().open("clikcs").raw
    check_inputs(application, plan)


def test_a_chain_starts_with_what_writes(home: Home) -> None:
    """What was made as an empty input is raw, and so cannot become the output of an application."""
    reader = program("reader", 'SCRIBE(category = "end")', source="out")
    check_inputs(home.application("reader"), reader, create=True)
    with pytest.raises(BaseException, match="start what writes it first"):
        home.log().create("out", SCHEMA, owner=Owner("first", "t"))
    home.log().drop("out")
    started(home, program("first", STORAGES["category"]))
    check_inputs(home.application("reader"), reader)
    check(home, reader)


def test_what_a_dropped_application_leaves_behind_is_free(home: Home) -> None:
    started(home, program("first", STORAGES["category"]))
    drop_application(home, "first", keep_data=True)
    assert home.log().open("out").owner == NOBODY
    check(home, program("second", STORAGES["category"]))
