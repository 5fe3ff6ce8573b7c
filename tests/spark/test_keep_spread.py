"""When state partitions are moved, and which."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import structlog
from structlog.testing import capture_logs

from braid.spark.keep_spread import (
    CALM_SECONDS,
    LOOK_SECONDS,
    MOST_SECONDS,
    TRIES,
    KeepSpread,
)


@dataclass
class Spark:
    """Its register, where tasks run whatever that says, and the clock."""

    found: list[str | None]
    now: float = 0.0
    done: int = -1
    moved: list[tuple[float, dict[int, str]]] = field(default_factory=list)
    looks: int = 0

    def places(self) -> list[str | None]:
        self.looks += 1
        return list(self.found)

    def move(self, places: Mapping[int, str]) -> None:
        self.moved.append((self.now, dict(places)))
        for partition, executor in places.items():
            self.found[partition] = executor

    def batch(self) -> int:
        return self.done

    def kept(self) -> KeepSpread:
        return KeepSpread(self, structlog.get_logger(), lambda: self.now)

    def ran(self, *places: str) -> None:
        """A micro-batch, of which tasks have told the register where they are."""
        self.done += 1
        self.now += 1
        self.found = list(places)


def placed(logged: list[MutableMapping[str, Any]]) -> list[list[str]]:
    return [one["executors"] for one in logged if one["event"] == "shards placed"]


def test_partitions_begin_spread_before_any_has_run() -> None:
    spark = Spark([None, None, None], now=5)
    spark.kept().keep(["1", "2"], ["1", "2"])
    assert spark.moved == [(5, {0: "1", 1: "2", 2: "1"})]


def test_it_is_said_again_until_a_micro_batch_has_begun_with_it() -> None:
    spark = Spark(["1", "1"], now=10)
    kept = KeepSpread(spark, structlog.get_logger(), lambda: spark.now)
    with capture_logs() as logged:
        spark.now += 10
        kept.keep(["1", "2"], ["1", "2"])
        assert spark.moved == [(20, {1: "2"})]
        spark.found = ["1", "1"]  # by the micro-batch that was under way
        spark.now += 0.25
        kept.keep(["1", "2"], ["1", "2"])
        assert spark.moved[1:] == [(20.25, {1: "2"})]
        spark.ran("1", "2")  # it is done, and nobody has said anything else
        kept.keep(["1", "2"], ["1", "2"])
        assert not logged
        spark.ran("1", "2")
        kept.keep(["1", "2"], ["1", "2"])
    assert len(spark.moved) == 2
    assert placed(logged) == [["1", "2"]]


def test_what_runs_elsewhere_all_the_time_is_moved_after_pauses_that_grow() -> None:
    spark = Spark(["1", "1"])
    kept = spark.kept()
    with capture_logs() as logged:
        while spark.now < 600:
            kept.keep(["1", "2"], ["1", "2"])
            spark.ran("1", "1")
    times = [at for at, _ in spark.moved]
    pauses = [later - last for last, later in pairwise(times) if later - last > 1]
    assert pauses[-1] == MOST_SECONDS + 1
    assert pauses == sorted(pauses)
    assert len(times) >= TRIES * len(pauses)
    assert placed(logged) == [["1", "1"]]
    spark.now += CALM_SECONDS
    for _ in range(2 * TRIES + 3):
        kept.keep(["1", "2"], ["1", "2"])
        spark.ran("1", "1")
    assert len(spark.moved) == len(times) + 2 * TRIES, "pauses begin with the first one again"


def test_what_was_on_a_lost_executor_is_moved_at_once_and_nothing_else() -> None:
    spark = Spark(["1", "2", "3", "1", "2", "3"])
    kept = spark.kept()
    kept.keep(["1", "2", "3"], ["1", "2", "3"])
    for alive in (["1", "3"], ["3"]):
        spark.now += 0.1
        kept.keep(alive, ["1", "2", "3"])
    assert [moves for _, moves in spark.moved] == [{1: "1", 4: "3"}, {0: "3", 1: "3", 3: "3"}]


def test_executors_that_have_come_get_something_once_they_are_chosen() -> None:
    spark = Spark(["1", "1"])
    kept = spark.kept()
    spark.now = 10
    kept.keep(["1", "2"], ["0", "1"])
    assert not spark.moved
    kept.keep(["1", "2"], ["1", "2"])
    assert [moves for _, moves in spark.moved] == [{1: "2"}]
    spark.now += 10
    kept.keep(["2", "3"], ["0", "1"])
    assert spark.found == ["2", "2"], "not chosen either, but has some already"
    kept.keep(["3"], ["0", "1"])
    assert spark.found == ["3", "3"], "there is no other"


def test_it_looks_now_and_then_and_when_executors_change() -> None:
    spark = Spark(["1", "2"])
    kept = spark.kept()
    for _ in range(5):
        kept.keep(["1", "2"], ["1", "2"])
    assert spark.looks == 1
    spark.now += LOOK_SECONDS
    kept.keep(["1", "2"], ["1", "2"])
    assert spark.looks == 2
    kept.keep(["1", "2", "3"], ["1", "2"])
    assert spark.looks == 3
    kept.keep([], ["1", "2"])
    assert not spark.moved


def test_a_query_that_has_ended_is_left_alone() -> None:
    spark = Spark([None, None])
    kept = spark.kept()
    kept.keep(["1", "2"], ["1", "2"])
    spark.found = [None, None]
    spark.now += 100
    kept.keep(["1"], ["1"])
    assert len(spark.moved) == 1
