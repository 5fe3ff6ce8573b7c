"""Small applications of a pool share a driver; each is stopped, replaced and brought back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.api.data import publish, read
from tests.service.serving import Served, until

pytestmark = pytest.mark.spark

BEGIN = 1_700_000_000
PROGRAM = """
CREATE APPLICATION {name} WITH (shards = 1, idle_timeout = '1 hour');
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
CREATE TABLE {name}_out AS SELECT {columns} FROM l JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour' STORAGE SCRIBE(category = "{name}_out");
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path / "home")
    yield found
    found.close()


def arrive(served: Served, number: int) -> None:
    """A pair."""
    for side in "lr":
        publish(side, [{"id": number, "t": BEGIN + number, "k": f"k{number}"}], served.home)


def pairs(served: Served, name: str) -> list[int]:
    """Left rows of all pairs that have come out of an application."""
    category = f"{name}_out"
    if not served.home.log().has(category):
        return []
    return sorted(read(category, served.home)["lid"].to_pylist())


def deploy(served: Served, folder: Path, name: str, columns: str = "l.id AS lid", pool: str = "small") -> str:
    program = folder / f"{name}.sql"
    program.write_text(PROGRAM.format(name=name, columns=columns))
    return served.braid("deploy", str(program), "--pool", pool, "--yes")


def come(served: Served, name: str, *numbers: int) -> None:
    until(lambda: pairs(served, name) == list(numbers), f"not all pairs come out of {name}")


def test_members_share_a_process_and_live_by_themselves(served: Served, tmp_path: Path) -> None:
    served.start()
    arrive(served, 0)
    for name in ("one", "two"):
        assert "version 1 is running" in deploy(served, tmp_path, name)
        come(served, name, 0)
    pid = served.info("one")["pid"]
    assert served.info("two")["pid"] == pid

    # One is updated, stopped and started; the other does not notice, nor does the process.
    assert "version 2 is running" in deploy(served, tmp_path, "one", "l.id AS lid, r.id AS rid")
    assert "one: stopped" in served.braid("stop", "one")
    arrive(served, 1)
    come(served, "two", 0, 1)
    assert pairs(served, "one") == [0]
    assert "one: running" in served.braid("start", "one")
    come(served, "one", 0, 1)
    assert read("one_out", served.home)["rid"].to_pylist()[-1] == 1
    assert {served.info(name)["pid"] for name in ("one", "two")} == {pid}
    assert served.info("two")["restarts"] == 0

    # The process dies, and takes both with it; both come back, in a new one.
    served.kill_pool("small")
    arrive(served, 2)
    for name in ("one", "two"):
        come(served, name, 0, 1, 2)
    found = {served.info(name)["pid"] for name in ("one", "two")}
    assert len(found) == 1
    assert found != {pid}


def test_a_member_that_fails_leaves_the_others_alone(served: Served, tmp_path: Path) -> None:
    served.start()
    arrive(served, 0)
    deploy(served, tmp_path, "one")
    pid = served.info("one")["pid"]
    served.home.log().open("one_out")
    deploy(served, tmp_path, "two")
    # What it has written down is damaged: it cannot go on.
    served.braid("stop", "two")
    served.home.application("two").plan_file.write_text("{")
    assert "does not run" in served.braid("start", "two", code=1)
    assert served.info("two")["state"] == "failed"
    arrive(served, 1)
    come(served, "one", 0, 1)
    assert served.info("one")["pid"] == pid
    # The service ends, and the next one finds the pool.
    assert served.end() == 0
    served.start()
    assert (served.info("one")["pid"], served.info("one")["state"]) == (pid, "running")


def test_an_application_moves_out_of_a_pool_and_back(served: Served, tmp_path: Path) -> None:
    served.start()
    arrive(served, 0)
    deploy(served, tmp_path, "one")
    come(served, "one", 0)
    pool = served.info("one")["pid"]
    program = tmp_path / "one.sql"
    assert "pool: small -> as usual" in served.braid("deploy", str(program), "--yes")
    arrive(served, 1)
    come(served, "one", 0, 1)
    assert served.info("one")["pid"] != pool
    deploy(served, tmp_path, "one")
    arrive(served, 2)
    come(served, "one", 0, 1, 2)
    assert served.info("one")["pid"] == pool
