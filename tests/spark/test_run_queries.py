"""The queries of a run together, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import structlog
from structlog.testing import capture_logs

from braid import api
from braid.home.control import Generation
from braid.home.paths import Home
from braid.plan.physical.layout import Layout, layout
from braid.spark.generations import Generations
from braid.spark.placement import UnknownRegisterError
from braid.spark.run_queries import RunQueries

PROGRAM = """
  CREATE APPLICATION app;
  CREATE INPUT TABLE l (id bigint) FROM SCRIBE("l");
  CREATE TABLE a AS SELECT * FROM l STORAGE SCRIBE(category = "a");
  CREATE TABLE b AS SELECT * FROM l STORAGE SCRIBE(category = "b");
"""


def test_a_drain_that_is_stopped_in_its_last_stage_is_not_done(home: Home) -> None:
    plan = api.compile_text(PROGRAM).plan
    stopping = threading.Event()
    queries = RunQueries(
        home.application("app"),
        plan,
        structlog.get_logger(),
        SimpleNamespace(),  # type: ignore[arg-type]
        stopping,
        drain=True,
        show=print,
        own=True,
    )
    first, last = (stage.name for stage in plan.stages)
    done = SimpleNamespace(wait=lambda: None)
    stopped = SimpleNamespace(wait=stopping.set)  # a query that was stopped ends as one that is done
    queries.stages = {first: done, last: done}  # type: ignore[dict-item]
    assert queries.work_off()
    queries.stages = {first: done, last: stopped}  # type: ignore[dict-item]
    assert not queries.work_off()


JOIN = """
  CREATE APPLICATION app;
  CREATE INPUT TABLE l (id bigint, t timestamp) FROM SCRIBE("l") TIME t;
  CREATE TABLE out AS SELECT a.id AS one, b.id AS two FROM l AS a JOIN l AS b ON a.id = b.id
    AND b.t BETWEEN a.t AND a.t + INTERVAL '1 minute' STORAGE SCRIBE(category = "out");
"""


def test_what_is_there_is_waited_for_when_a_generation_has_begun(home: Home) -> None:
    """Between its savepoint and the next generation a stage takes nothing in, and would be done at once."""
    plan, asked = api.compile_text(PROGRAM).plan, []
    queries = RunQueries(
        home.application("app"),
        plan,
        structlog.get_logger(),
        SimpleNamespace(),  # type: ignore[arg-type]
        threading.Event(),
        drain=False,
        show=print,
        own=True,
    )

    def process_available() -> None:
        assert not queries._changing.locked(), "whoever rescales would wait, while rows keep coming for ever"
        asked.append(len(asked))
        if len(asked) == 1:
            queries._changes += 1  # as a rescale does that begins now

    query = SimpleNamespace(process_available=process_available)
    queries.stages = dict.fromkeys((stage.name for stage in plan.stages), query)  # type: ignore[arg-type]
    assert len(queries.stages) == 2
    queries.process_available()
    assert len(asked) == 3


class Cluster:
    """A launcher's view of executors that come and go."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def executors(self) -> list[str]:
        return self.names

    def wanted(self, stage: object, shards: int | None, partitions: int | None) -> Layout:
        return layout(shards or 4, partitions or min(4, len(self.names)))


def running(home: Home, launcher: Cluster) -> RunQueries:
    """The queries of a join, none of which is started yet."""
    return RunQueries(
        home.application("app"),
        api.compile_text(JOIN).plan,
        structlog.get_logger(),
        launcher,  # type: ignore[arg-type]
        threading.Event(),
        drain=False,
        show=print,
        own=True,
    )


def test_shards_are_spread_over_executors_that_have_come(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    application, launcher = home.application("app"), Cluster("0", "1")
    changed: list[Layout] = []

    def change(self: Generations, stage: str, query: object, wanted: Layout) -> float:
        changed.append(wanted)
        Generation(shards=wanted.shards, partitions=wanted.partitions).write(
            application.control_file(stage, "state")
        )
        return 1.5

    monkeypatch.setattr(Generations, "change", change)
    monkeypatch.setattr(RunQueries, "_start", lambda *_: None)
    Generation(shards=4, partitions=2).write(application.control_file("out", "state"))
    queries = running(home, launcher)
    queries.stages = {"out": SimpleNamespace()}  # type: ignore[dict-item]
    queries.start()
    assert queries.rescale() == {}
    launcher.names = ["0", "2"]
    assert queries.new_executors() == {"2"}, "in place of one that was lost"
    assert queries.rescale() == {}, "state partitions are moved to it, and stay as many"
    assert not queries.new_executors()
    launcher.names = ["2"]
    assert not queries.new_executors()
    assert queries.rescale(partitions=2) == {}, "those that are left have taken over its shards"
    assert queries.rescale() == {"out": 1.5}
    launcher.names = ["2", "3"]
    assert queries.rescale(partitions=1) == {}
    assert queries.rescale() == {"out": 1.5}
    assert changed == [layout(4, 1), layout(4, 2)]


class Register:
    """Where state partitions are, and where they are to be."""

    def __init__(self, places: list[str | None]) -> None:
        self.found = places
        self.known = True

    def places(self) -> list[str | None]:
        if not self.known:
            raise UnknownRegisterError("'JavaPackage' object is not callable")
        return list(self.found)

    def move(self, places: dict[int, str]) -> None:
        for partition, executor in places.items():
            self.found[partition] = executor

    def batch(self) -> int:
        return 0


def test_state_partitions_are_spread_at_a_start_and_by_a_rescale(home: Home) -> None:
    register, launcher = Register([None, None]), Cluster("0", "1")
    launcher.start = lambda *_, **__: SimpleNamespace(isActive=True)  # type: ignore[attr-defined]
    launcher.register = lambda *_: register  # type: ignore[attr-defined]
    launcher.first_batch = lambda _: 0  # type: ignore[attr-defined]
    launcher.relayed = lambda _: False  # type: ignore[attr-defined]
    queries = running(home, launcher)
    Generation(shards=4, partitions=2).write(home.application("app").control_file("out", "state"))
    queries.start()
    assert register.found == ["0", "1"]
    launcher.names = ["1"]
    queries.keep_spread()
    assert register.found == ["1", "1"], "of one that is lost"
    launcher.names = ["1", "2"]
    queries.keep_spread()
    assert register.found == ["1", "1"], "it may go again, or others may come"
    assert queries.rescale() == {}
    assert register.found == ["1", "2"]
    register.known = False
    with capture_logs() as logged:
        for names in (["1"], ["2"]):
            launcher.names = names
            queries.keep_spread()
    assert [one["event"] for one in logged] == ["shards are where Spark puts them"]
