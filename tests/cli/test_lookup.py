"""`braid lookup load`, `braid lookup get` and `braid lookup tables`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from braid.cli.main import app


@pytest.fixture
def braid(tmp_path: Path):
    def run(*arguments: object) -> tuple[int, str, str]:
        home = ["--home", str(tmp_path / "home")]
        result = CliRunner().invoke(app, ["lookup", *map(str, arguments), *home])
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def cities(tmp_path: Path, braid) -> Path:
    path = tmp_path / "cities.csv"
    path.write_text("country,city,people,since\nNO,Oslo,700000,2026-01-31T12:00:00Z\nNO,Bergen,,\n")
    assert braid("load", "cities", path, "--key", "country,city") == (0, "", "cities: 2 rows in all\n")
    return path


def test_get_prints_json(braid, cities) -> None:
    code, out, _ = braid("get", "cities", "NO", "Oslo")
    assert code == 0
    assert json.loads(out) == {
        "country": "NO",
        "city": "Oslo",
        "people": 700_000,
        "since": "2026-01-31T12:00:00.000000Z",
    }
    assert json.loads(braid("get", "cities", "NO", "Bergen")[1])["people"] is None


def test_a_missing_key_is_an_error(braid, cities) -> None:
    code, out, err = braid("get", "cities", "NO", "Paris")
    assert (code, out) == (1, "")
    assert "there is no row for (NO, Paris)" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get", "city", "NO", "Oslo"), "did you mean 'cities'"),
        (("get", "cities", "NO"), "the key has 2 columns, not 1"),
        (("load", "cities", "none.csv", "--key", "country"), "none.csv"),
        (
            ("load", "cities", "none.csv", "--key", "country", "--ttl", "soon"),
            "--ttl: 'soon' is not a duration",
        ),
    ],
)
def test_mistakes_are_explained(braid, cities, arguments, message) -> None:
    code, out, err = braid(*arguments)
    assert (code, out) == (1, "")
    assert message in err


def test_keys_are_read_in_their_types(braid, tmp_path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"day": "2026-01-31", "n": 7, "ok": true, "x": "1"}\n')
    assert braid("load", "t", path, "--key", "n,ok")[0] == 0
    assert json.loads(braid("get", "t", "7", "true")[1])["x"] == "1"
    code, _, err = braid("get", "t", "seven", "true")
    assert code == 1
    assert "'seven' is not a value of key column 'n', which is int64" in err


def test_replace_and_ttl(braid, cities) -> None:
    cities.write_text("country,city,people\nFR,Paris,2000000\n")
    assert braid("load", "cities", cities, "--key", "country,city")[2] == "cities: 1 rows written\n"
    assert braid("get", "cities", "NO", "Oslo")[0] == 0
    load = ("load", "cities", cities, "--key", "country, city", "--replace", "--ttl", "7 days")
    assert braid(*load)[0] == 0
    assert braid("get", "cities", "NO", "Oslo")[0] == 1
    code, out, _ = braid("tables")
    assert code == 0
    assert all(text in out for text in ("cities", "country string, city string", "people int64", "604,800 s"))


def test_no_tables(braid) -> None:
    code, out, _ = braid("tables")
    assert code == 0
    assert "ttl" in out
