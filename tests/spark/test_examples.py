"""The examples run as they are, and give what DuckDB gives."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from braid import api
from braid.api.data import publish
from braid.home.paths import Home
from braid.stores.lookup import LookupStore, load_file
from tests.spark.oracle import differences, read

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
PAIRS = " UNION ".join(
    f"SELECT r.t AS rt, s.t AS st, r.machine, r.rpm, s.nm FROM {mine} ASOF JOIN {other} "
    f"ON r.machine = s.machine AND {condition}"
    for mine, other, conditions in (
        ("spindle_speed AS r", "spindle_torque AS s", ("r.t >= s.t", "r.t < s.t")),
        ("spindle_torque AS s", "spindle_speed AS r", ("s.t >= r.t", "s.t < r.t")),
    )
    for condition in conditions
)
ANSWERS = {
    "spindle": (
        "spindle_power",
        "SELECT make_timestamptz((epoch_us(rt) + epoch_us(st)) // 2) AS t, machine, rpm, nm, "
        f"round(rpm * nm * 0.10471975511965977, 3) AS watts FROM ({PAIRS}) "
        "WHERE abs(epoch_us(rt) - epoch_us(st)) <= 10000000",
    ),
    "orders": (
        "tracked_orders",
        "SELECT o.order_id, o.item, o.t AS ordered, d.t AS delivered, d.carrier, r.t AS returned, r.reason "
        "FROM orders AS o LEFT JOIN deliveries AS d ON d.order_id = o.order_id "
        "AND d.t BETWEEN o.t AND o.t + INTERVAL '3 days' LEFT JOIN returns AS r ON r.order_id = o.order_id "
        "AND r.t BETWEEN d.t - INTERVAL '1 hour' AND d.t + INTERVAL '2 days'",
    ),
    "prices": (
        "priced_ads",
        "SELECT t, campaign, ad, price, coalesce(price, 0.0) AS charged FROM "
        "(SELECT a.*, CASE WHEN a.t - p.t <= INTERVAL '1 hour' THEN p.price END AS price FROM ads_shown AS a "
        "ASOF LEFT JOIN ad_prices AS p ON a.campaign = p.campaign AND a.t >= p.t)",
    ),
    "visits": (
        "named_visits",
        f"SELECT v.t, v.user_id, v.page, u.name, u.country FROM visits AS v "
        f"LEFT JOIN '{EXAMPLES}/visits/users.csv' AS u ON u.user_id = v.user_id",
    ),
}


def run(spark: object, home: Home, name: str) -> dict[str, list[dict[str, object]]]:
    """Publish what is in the folder, drain the program, and give the streams back."""
    streams = {}
    for file in sorted((EXAMPLES / name).glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        publish(file.stem, rows, home)
        streams[file.stem] = [{**row, "t": _millis(row["t"])} for row in rows]
    for file in (EXAMPLES / name).glob("*.csv"):
        load_file(LookupStore(home.root), file, file.stem, ["user_id"], now_us=time.time_ns() // 1000)
    plan = api.compile_text((EXAMPLES / name / "app.sql").read_text()).plan
    api.run(plan, home.root, spark=spark, drain=True).wait()
    return streams


def _millis(time: object) -> object:
    if isinstance(time, int):
        return time
    return round(datetime.fromisoformat(str(time)).timestamp() * 1000)


@pytest.mark.parametrize("name", ANSWERS)
def test_examples_give_what_duckdb_gives(spark: object, home: Home, name: str) -> None:
    streams = run(spark, home, name)
    category, sql = ANSWERS[name]
    found = read(home, category)
    assert found.num_rows > 15
    assert differences(found, sql, streams) == []
    if name == "visits":
        with LookupStore(home.root).open("last_visit") as table:
            rows = pa.Table.from_batches(table.scan(time.time_ns() // 1000)).to_pylist()
        last = {row["user_id"]: row["page"] for row in sorted(streams["visits"], key=lambda row: row["t"])}
        assert {row["user_id"]: row["page"] for row in rows} == last


def test_each_click_counts_for_one_impression(spark: object, home: Home) -> None:
    streams = run(spark, home, "clicks")
    found = read(home, "paid_clicks").to_pylist()
    free = sorted(streams["clicks"], key=lambda row: row["t"])
    pairs = {}
    for shown in sorted(streams["impressions"], key=lambda row: row["t"]):
        pick = next(
            (
                click
                for click in free
                if (click["user_id"], click["ad"]) == (shown["user_id"], shown["ad"])
                and 0 <= click["t"] - shown["t"] <= 600_000
            ),
            None,
        )
        free = [click for click in free if click is not pick]
        pairs[shown["id"]] = None if pick is None else pick["id"]
    assert {row["impression"]: row["click"] for row in found} == pairs
    assert len(found) == len(pairs)
