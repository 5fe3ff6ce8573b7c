"""Homes that were written by earlier versions, and left in the middle: this version goes on with them."""

from __future__ import annotations

import re
import tarfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from braid import api
from braid.stores.lookup import LookupStore
from tests.golden.layout import GOLDEN, SAVEPOINT, versions, with_savepoints

pytestmark = pytest.mark.spark

LETTERS = "shop.dead_letter"
USABLE = re.compile(r'\{"id": \d+, "t": \d+, ')


@pytest.mark.parametrize("version", versions())
def test_a_stopped_application_goes_on_and_does_everything_once(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    golden, home = unpacked(version, tmp_path)
    relocate(home)
    letters = api.read(LETTERS, home).num_rows
    publish_rest(golden, home)
    api.run(golden / "program.sql", home, spark=spark, drain=True).wait()

    printed = "\n".join(line for line in capsys.readouterr().out.splitlines() if line.startswith("{"))
    (tmp_path / "seen.jsonl").write_text(printed)
    connection, outputs = expected(golden)
    for name in outputs:
        connection.execute(f"CREATE TABLE got_{name} AS {stored(connection, home, name)}")
    check(connection, outputs)

    found = [(row["stage"], row["raw"]) for row in api.read(LETTERS, home).to_pylist()]
    lines = [line for path in golden.glob("*/*.jsonl") for line in path.read_text("utf-8").splitlines()]
    assert {raw for _, raw in found} == {line for line in lines if not USABLE.match(line)}
    # Each line of the second half is listed once; the first version listed it for each stage that reads it.
    rest = [line for path in golden.glob("rest/*.jsonl") for line in path.read_text("utf-8").splitlines()]
    wrong = sum(not USABLE.match(line) for line in rest)
    assert letters >= wrong > 0
    assert len(found) == len(set(found)) == letters + wrong


@pytest.mark.parametrize("version", with_savepoints())
def test_a_copy_goes_on_from_a_savepoint(spark: object, tmp_path: Path, version: str) -> None:
    """What the application has stored until then, and what the copy stores, is all."""
    golden, home = unpacked(version, tmp_path)
    connection, outputs = expected(golden)
    text = (
        (golden / "program.sql").read_text(encoding="utf-8").replace("APPLICATION shop", "APPLICATION copy")
    )
    names = re.findall(r'STORAGE \w+\((?:category|table) = "(\w+)"', text)
    for name in names:
        text = re.sub(rf'(STORAGE \w+\(\w+ = )"{name}"', rf'\1"{name}_copy"', text)
    (tmp_path / "copy.sql").write_text(text, encoding="utf-8")
    # Of a lookup table the copy has what has changed since; what is printed is in no table.
    whole = [name for name in outputs if name in names and not LookupStore(home).has(name)]
    assert len(whole) > 7
    publish_rest(golden, home)
    api.run(tmp_path / "copy.sql", home, spark=spark, savepoint=SAVEPOINT, drain=True).wait()
    for name in whole:
        before, after = (stored(connection, home, each) for each in (name, f"{name}_copy"))
        connection.execute(f"CREATE TABLE got_{name} AS ({before}) UNION ALL BY NAME ({after})")
        assert rows(connection, f"arrow_{name}_copy" if name != "clicked" else f"({after})") > 0
    check(connection, whole)


def unpacked(version: str, folder: Path) -> tuple[Path, Path]:
    """The folder of a golden home, and the home itself."""
    golden = GOLDEN / version
    with tarfile.open(golden / "home.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return golden, folder / "home"


def publish_rest(golden: Path, home: Path) -> None:
    """Publish the second half of the inputs."""
    for path in sorted((golden / "rest").glob("*.jsonl")):
        api.publish(path.stem, path.read_text(encoding="utf-8").splitlines(), home)


def expected(golden: Path) -> tuple[duckdb.DuckDBPyConnection, list[str]]:
    """DuckDB with all that is to be stored in the end, and the names of it."""
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = 'UTC'; SET file_search_path = '{golden}'")
    connection.execute((golden / "expected.sql").read_text(encoding="utf-8"))
    found = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    return connection, [name for (name,) in found]


def check(connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    """What was stored is what was expected."""
    assert {name: differences(connection, name) for name in names} == {name: [] for name in names}
    got = {name: rows(connection, f"got_{name}") for name in names}
    assert got == {name: rows(connection, name) for name in names}


def relocate(home: Path) -> None:
    """Tell Spark where its checkpoints are now: it goes by the full paths of schemas that it wrote down."""
    for path in home.glob("apps/*/checkpoints/*/state/0/_metadata/v2/0"):
        checkpoint = path.parents[4]
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf'"file:[^"]*/{checkpoint.name}/state/', f'"file:{checkpoint}/state/', text))
        path.with_name(".0.crc").unlink(missing_ok=True)


def stored(connection: duckdb.DuckDBPyConnection, home: Path, name: str) -> str:
    """SQL for what has become of a table: files, printed lines, a lookup table, or a category."""
    if (home / "warehouse" / name).exists():
        return f"SELECT * EXCLUDE (dt, hour) FROM read_parquet('{home}/warehouse/{name}/**/*.parquet')"
    if name == "seen":
        return f"FROM read_json('{home.parent}/seen.jsonl')"
    if LookupStore(home).has(name):
        with LookupStore(home).open(name) as table:
            found = pa.Table.from_batches(table.scan(time.time_ns() // 1000))
    else:
        found = api.read(name, home)
    connection.register(f"arrow_{name}", found)
    return f"FROM arrow_{name}"


def differences(connection: duckdb.DuckDBPyConnection, name: str) -> list[object]:
    """Rows that were stored but not expected, and the other way round; none if they are the same multiset."""
    columns = ", ".join(column for column, *_ in connection.execute(f"DESCRIBE {name}").fetchall())
    got, want = f"SELECT {columns} FROM got_{name}", f"SELECT {columns} FROM {name}"
    return connection.execute(f"""
      (SELECT 'extra', * FROM ({got} EXCEPT ALL {want})) UNION ALL
      (SELECT 'missing', * FROM ({want} EXCEPT ALL {got}))
    """).fetchall()


def rows(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    """How many rows a table has."""
    return connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0]
