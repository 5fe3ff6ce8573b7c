"""Applications whose executors are on a Spark standalone cluster, of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from braid.api.data import publish, read
from tests.service.serving import Served, until
from tests.spark.cluster import CannotStartError, Cluster, running

pytestmark = pytest.mark.spark

NAMES = ("one", "two")
BEGIN = 1_700_000_000
PROGRAM = """
CREATE APPLICATION {name} WITH (shards = 1, idle_timeout = '1 hour');
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
CREATE TABLE out AS SELECT l.id AS lid FROM l JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour'
  STORAGE SCRIBE(category = "{name}_out");
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A worker with room for two applications that ask for nothing, and one core more."""
    try:
        with running(tmp_path_factory.mktemp("cluster"), workers=1, cores=5, memory="2g") as started:
            yield started
    except CannotStartError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Served]:
    """A service with two applications of which a row has come out each."""
    found = Served(tmp_path_factory.mktemp("service") / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("BRAID_BACKEND", "standalone")
        patch.setenv("BRAID_MASTER", cluster.master)
        found.start()
    try:
        arrive(found, 0)
        for name in NAMES:
            deploy(found, name)
        until(lambda: out(found, 1), "rows do not come out of both")
        yield found
    finally:
        found.close()


def deploy(served: Served, name: str, *more: str) -> None:
    """Deploy an application."""
    program = served.home.root / f"{name}.sql"
    program.write_text(PROGRAM.format(name=name))
    served.braid("deploy", str(program), "--yes", "--memory", "512m", "--no-wait", *more)


def arrive(served: Served, number: int) -> None:
    """A pair, and a left row that has none yet."""
    publish("r", [{"id": number, "t": BEGIN + number, "k": f"k{number}"}], served.home)
    publish("l", [{"id": number, "t": BEGIN + number, "k": f"k{number}"}], served.home)


def pairs(served: Served, name: str) -> list[int]:
    """Left rows of all pairs that have come out."""
    category = f"{name}_out"
    return sorted(read(category, served.home)["lid"].to_pylist()) if served.home.log().has(category) else []


def out(served: Served, count: int) -> bool:
    """Whether rows of both have come out, each once."""
    return all(pairs(served, name) == list(range(count)) for name in NAMES)


def test_one_for_which_there_is_no_room_says_what_it_waits_for(served: Served) -> None:
    deploy(served, "three", "--cores", "2")
    until(lambda: "executors of spark://" in served.braid("app", "three"), "it does not wait")
    served.braid("stop", "three")


def test_executors_that_die_are_replaced_and_drivers_go_on(served: Served, cluster: Cluster) -> None:
    pids = {name: served.info(name)["pid"] for name in NAMES}
    cluster.kill_executor(0)
    arrive(served, 1)
    until(lambda: out(served, 2), "rows do not come out after the loss of executors")
    assert {name: served.info(name)["pid"] for name in NAMES} == pids
