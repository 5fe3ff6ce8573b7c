"""The service with real processes and Spark: what is deployed runs, and whatever dies comes back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.api.data import publish, read
from tests.service.serving import Served, until

pytestmark = pytest.mark.spark

BEGIN = 1_700_000_000
PROGRAM = """
CREATE APPLICATION clicks WITH (shards = 2, idle_timeout = '1 hour');
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
CREATE TABLE out AS SELECT {columns} FROM l JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour' STORAGE SCRIBE(category = "out");
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path / "home")
    yield found
    found.close()


def arrive(served: Served, number: int) -> None:
    """A pair, of which the left row was there before."""
    publish("r", [{"id": 10 + number, "t": BEGIN + number, "k": f"k{number}"}], served.home)
    publish("l", [{"id": 1 + number, "t": BEGIN + number, "k": f"k{number + 1}"}], served.home)


def pairs(served: Served) -> list[int]:
    """Left rows of all pairs that have come out."""
    if not served.home.log().has("out"):
        return []
    return sorted(read("out", served.home)["lid"].to_pylist())


@pytest.fixture
def program(served: Served, tmp_path: Path) -> Path:
    """A program that runs, of which one pair has come out, and one row is in flight."""
    found = tmp_path / "app.sql"
    found.write_text(PROGRAM.format(columns="l.id AS lid"))
    served.start()
    arrive(served, 0)
    arrive(served, 1)
    assert "nobody has agreed" in served.braid("deploy", str(found), code=1)
    assert "version 1 is running" in served.braid("deploy", str(found), "--yes")
    until(lambda: pairs(served) == [1], "the first pair does not come out")
    return found


@pytest.mark.usefixtures("program")
def test_whatever_dies_comes_back(served: Served) -> None:
    # The service dies, and the application does not care; the next one finds it.
    pid = served.info("clicks")["pid"]
    assert served.end(signal.SIGKILL) == -signal.SIGKILL
    arrive(served, 2)
    until(lambda: pairs(served) == [1, 2], "nothing comes out without the service")
    served.start()
    assert (served.info("clicks")["pid"], served.info("clicks")["state"]) == (pid, "running")

    # The driver dies, with rows in flight.
    served.kill_driver("clicks")
    arrive(served, 3)

    def back() -> bool:
        info = served.info("clicks")
        return info["state"] == "running" and info["pid"] != pid

    until(back, "the driver does not come back")
    until(lambda: pairs(served) == [1, 2, 3], "rows in flight are lost")
    assert "has failed: its process is gone" in served.braid("events", "clicks")
    shown = served.braid("app", "clicks")
    assert "clicks: running, version 1" in shown
    assert "failed 1 times within half an hour" in shown


def test_another_version_takes_the_place_of_what_runs_and_is_deleted(served: Served, program: Path) -> None:
    program.write_text(PROGRAM.format(columns="l.id AS lid, r.id AS rid"))
    assert "an update, kept" in served.braid("deploy", str(program), "--yes")
    arrive(served, 2)
    until(lambda: pairs(served) == [1, 2], "rows in flight are lost by the update")
    assert read("out", served.home)["rid"].to_pylist()[-1] == 12
    assert "do not go with that" in served.braid("rollback", "clicks", "--drain", code=1)
    assert "clicks: stopped" in served.braid("stop", "clicks")
    assert "category out" in served.braid("delete", "clicks", "--yes")
    assert served.home.log().categories() == ["l", "r"]
    assert served.end() == 0
    assert "no service is running" in served.braid("events", code=1)
