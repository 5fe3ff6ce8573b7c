"""A driver that was replaced publishes nothing, and ends."""

from __future__ import annotations

import pytest

from braid import api
from braid.api.data import publish, read
from braid.core.errors import RunError
from braid.home.lease import take_lease
from braid.home.paths import Home

pytestmark = pytest.mark.spark

PROGRAM = """
CREATE APPLICATION app WITH (shards = 2);
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
CREATE TABLE joined AS SELECT l.id FROM l JOIN r ON l.k = r.k AND r.t BETWEEN l.t AND l.t
  STORAGE SCRIBE(category = "joined");
CREATE TABLE copied AS SELECT id FROM l STORAGE SCRIBE(category = "copied");
CREATE TABLE stored AS SELECT id FROM l STORAGE HIVE(table = "stored");
CREATE TABLE looked AS SELECT id, k FROM l STORAGE LASER(table = "looked", key = (id));
"""


def row(number: int) -> dict[str, object]:
    return {"id": number, "t": 1_700_000_000, "k": "a"}


def test_a_driver_that_was_replaced_publishes_nothing(spark: object, home: Home) -> None:
    for name in "lr":
        publish(name, [row(1)], home)
    handle = api.run(api.compile_text(PROGRAM).plan, home, spark=spark)  # type: ignore[arg-type]
    handle.process_available()
    categories = home.log().categories()
    before = {name: home.log().open(name).latest() for name in categories}
    application = home.application("app")
    take_lease(application)
    application.status_file.write_text("what the successor says")
    publish("l", [row(2)], home)
    with pytest.raises(RunError, match="may not write for the application any more"):
        handle.wait(100)
    assert application.status_file.read_text() == "what the successor says"
    after = {name: home.log().open(name).latest() for name in categories}
    assert after == {**before, "l": before["l"] + 1}
    assert len(list((home.root / "warehouse" / "stored").rglob("*.parquet"))) == 1
    # Whoever starts next goes on where it was.
    with api.run(api.compile_text(PROGRAM).plan, home, spark=spark) as handle:  # type: ignore[arg-type]
        handle.process_available()
    assert sorted(read("joined", home)["id"].to_pylist()) == [1, 2]
    assert sorted(read("copied", home)["id"].to_pylist()) == [1, 2]
