"""The life of the first example in the service: updates with rows in flight, a rollback, a deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pytest

from braid.api.data import read
from tests.service.serving import Served, until

pytestmark = pytest.mark.spark

PROGRAM = (Path(__file__).parents[2] / "examples" / "first" / "app.sql").read_text()
COLUMNS = ("key", "dim_one", "dim_two", "dim_three", "metric")
ORACLE = """
SELECT l.key, l.dim_one, r.dim_two, COALESCE(r.dim_three, 'example'), ABS(l.metric)
FROM l LEFT JOIN r ON {keys} AND r.second BETWEEN l.second - 180 AND l.second + 180
"""


class Life:
    """The application, and what has been published for it."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self.program = folder / "app.sql"
        self.program.write_text(PROGRAM)
        self.rows: dict[str, list[dict[str, Any]]] = {"left": [], "right": []}

    def publish(self, minutes: range) -> None:
        """A row of each side for every minute, minute by minute; of the five keys one has no right row."""
        with self.http as http:
            for minute in minutes:
                key = "abcde"[minute % 5]
                right: dict[str, Any] = {"key": "x" if key == "c" else key, "dim_two": f"d{minute}"}
                left: dict[str, Any] = {"key": key.upper() if minute % 7 == 0 else key, "dim_one": "web"}
                left |= {"metric": -minute - 0.5}  # tells which row it is
                for side, offset, row in (("right", 30, right), ("left", 0, left)):
                    time = f"2024-05-01T{minute // 60:02}:{minute % 60:02}:{offset:02}Z"
                    asked = {"records": [{"eventtime": time, **row}]}
                    assert http.post(f"/categories/{side}/records", json=asked).status_code == 201
                    self.rows[side].append({"dim_three": None, **row, "second": minute * 60 + offset})

    def go_on(self, minutes: range) -> None:
        """Publish, and wait for matches now and then: how far streams have come is seen as they come."""
        for first in range(minutes.start, minutes.stop, 5):
            few = range(first, min(first + 5, minutes.stop))
            self.publish(few)
            until(partial(self.have_matched, few), f"no matches of {few}")

    def have_matched(self, minutes: range) -> bool:
        """Whether all pairs of some minutes have come out."""
        found = {row[-1] for row in self.found(minutes.stop)}
        return all(minute + 0.5 in found for minute in minutes if minute % 5 != 2 and minute % 7)

    @property
    def http(self) -> httpx.Client:
        """Asks the service."""
        address = self.served.address
        token = self.served.folder.token_file.read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=f"{address}/api/v1", headers=headers, trust_env=False, timeout=60)

    def deploy(self, *changes: tuple[str, str], options: tuple[str, ...] = ("--yes",), code: int = 0) -> str:
        """Deploy the example with changes of its text."""
        text = PROGRAM
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.program.write_text(text)
        return self.served.braid("deploy", str(self.program), *options, code=code)

    def expected(self, until_minute: int, keys: str = "l.key = r.key") -> Counter[tuple[object, ...]]:
        """What DuckDB makes of left rows before a minute."""
        left = [row for row in self.rows["left"] if row["second"] < until_minute * 60]
        with duckdb.connect() as connection:
            connection.register("l", pa.Table.from_pylist(left))
            connection.register("r", pa.Table.from_pylist(self.rows["right"]))
            return Counter(connection.execute(ORACLE.format(keys=keys)).fetchall())

    def found(self, until_minute: int) -> Counter[tuple[object, ...]]:
        """What has come out of left rows before a minute."""
        if not self.served.home.log().has("result"):
            return Counter()
        rows = [row for row in read("result", self.served.home).to_pylist() if row["metric"] < until_minute]
        return Counter(tuple(row[name] for name in COLUMNS) for row in rows)

    def come(self, until_minute: int) -> None:
        """Wait for all results of left rows before a minute, and see that they are right."""
        expected = self.expected(until_minute)
        until(
            lambda: self.found(until_minute).total() >= expected.total(),
            f"not all of {expected.total()} rows come",
        )
        assert self.found(until_minute) == expected


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    served = Served(tmp_path / "home")
    served.start()
    yield Life(served, tmp_path)
    served.close()


def test_updates_lose_no_row_that_is_in_flight(life: Life) -> None:
    life.publish(range(3))
    assert "version 1 is running" in life.deploy()
    life.go_on(range(3, 10))
    life.come(4)
    assert '"dim_one":"web"' in life.served.braid("cat", "result")
    told = life.http.get("/categories/result/rows", params={"last": 1000}).json()["rows"]
    assert len(told) == read("result", life.served.home).num_rows

    # Rows of the last minutes wait for partners when the program gets another column.
    column = ("ABS(l.metric) AS metric", "ABS(l.metric) AS metric, l.metric * 2 AS twice")
    stored = ("dim_three, metric FROM", "dim_three, metric, twice FROM")
    life.publish(range(10, 13))
    assert "an update, kept" in life.deploy(column, stored)
    life.go_on(range(13, 25))
    life.come(18)
    rows = [row for row in read("result", life.served.home).to_pylist() if row["metric"] < 18]
    assert {row["twice"] for row in rows if row["metric"] > 14} == {
        -2 * row["metric"] for row in rows if row["metric"] > 14
    }
    assert all(row["twice"] in (None, -2 * row["metric"]) for row in rows)

    # What is stored could not be read any more: refused, and what runs goes on.
    text = ("ABS(l.metric) AS metric", "CAST(l.metric AS STRING) AS metric")
    assert "refused" in life.deploy(text, code=1)
    # Tables are removed on purpose only.
    other = ("CREATE TABLE result AS", "CREATE TABLE other AS")
    assert "--remove" in life.deploy(other, ('category = "result"', 'category = "other"'), code=1)
    assert life.served.info("sample_app")["running_version"] == 2


def test_a_replayed_update_a_rollback_and_a_deletion(life: Life) -> None:
    life.publish(range(3))
    assert "version 1 is running" in life.deploy()
    life.go_on(range(3, 10))
    life.come(4)
    # Keys are others: inputs are sliced again, and pairs of the past that fit now come out.
    keys = ("l.key = r.key", "LOWER(l.key) = r.key")
    assert "nobody has agreed" in life.deploy(keys, options=(), code=1)
    said = life.deploy(keys, options=("--yes", "--discard"))
    assert "an update, replayed" in said
    life.go_on(range(10, 20))
    wanted = life.expected(14, "LOWER(l.key) = r.key")

    def joined() -> bool:
        """Pairs of left rows that came after the update."""
        found = life.found(14)
        return all(found[row] for row in wanted if float(str(row[-1])) > 11)

    until(joined, "rows are not joined by the new keys")

    assert "version 3 is running" in life.served.braid("rollback", "sample_app", "1", "--yes", "--discard")
    life.go_on(range(20, 30))
    wanted = life.expected(24)
    until(
        lambda: all(life.found(24)[row] for row in wanted if float(str(row[-1])) > 21),
        "rows are not joined by the old keys",
    )
    assert max(life.found(24).values()) == 1
    numbers = life.http.get("/applications/sample_app/versions").json()
    assert [one["verdict"] for one in numbers] == [None, "replayed", "replayed"]

    assert "is not stopped" in life.served.braid("delete", "sample_app", "--yes", code=1)
    assert "sample_app: stopped" in life.served.braid("stop", "sample_app")
    assert "category result" in life.served.braid("delete", "sample_app", "--yes")
    assert life.served.home.log().categories() == ["left", "right"]
    assert life.http.get("/applications").json() == []
