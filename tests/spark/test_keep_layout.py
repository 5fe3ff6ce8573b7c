"""When a running application is rescaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from braid.core.errors import RunError
from braid.home.control import Rescale, Rescaled
from braid.home.paths import AppHome, Home
from braid.spark.keep_layout import SETTLED_SECONDS, KeepLayout

Layout = tuple[int | None, int | None]


@dataclass
class Run:
    """Queries, the clock, and what stops it all: a script says what happens when."""

    home: AppHome
    script: dict[float, Callable[[Run], None]]
    seconds: float
    now: float = 0.0
    new: frozenset[str] = frozenset()
    done: list[tuple[float, Layout]] = field(default_factory=list)
    fails: bool = False
    looks: int = 0

    def play(self) -> list[tuple[float, Layout]]:
        """What was rescaled, and when."""
        log = structlog.get_logger()
        KeepLayout(self.home, log, self, self, lambda: self.now).run()  # type: ignore[arg-type]
        return self.done

    def is_set(self) -> bool:
        return self.now > self.seconds

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        for at in [at for at in self.script if at <= self.now]:
            self.script.pop(at)(self)
        return self.is_set()

    def keep_spread(self) -> None:
        self.looks += 1

    def new_executors(self) -> frozenset[str]:
        return self.new

    def rescale(self, shards: int | None, partitions: int | None) -> dict[str, float]:
        self.done.append((self.now, (shards, partitions)))
        if self.fails:
            raise RunError("not today")
        self.new = frozenset()
        return {"out": 0.5}


def come(*names: str) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        run.new = frozenset(names)

    return change


def ask(run: Run) -> None:
    Rescale(id="asked", shards=6, partitions=2).write(run.home.rescale_file)


def test_it_begins_with_what_options_say_and_does_what_is_asked(home: Home) -> None:
    run = Run(home.application("app"), {10: ask}, seconds=60)
    assert run.play() == [(0, (None, None)), (10, (6, 2))]
    assert Rescaled.read(run.home.rescaled_file) == Rescaled(id="asked", seconds={"out": 0.5})
    assert not run.home.rescale_file.exists()


def test_executors_that_stay_are_used_as_was_asked_last(home: Home) -> None:
    run = Run(home.application("app"), {5: ask, 10: come("3"), 20: come("3", "4")}, seconds=100)
    assert run.play() == [(0, (None, None)), (5, (6, 2)), (20 + SETTLED_SECONDS, (6, 2))]


def test_executors_that_go_again_change_nothing(home: Home) -> None:
    run = Run(home.application("app"), {10: come("3"), 15: come()}, seconds=100)
    assert run.play() == [(0, (None, None))]
    assert run.looks > 100, "what others are to take over is not left to chance meanwhile"


def test_what_fails_is_not_tried_all_the_time(home: Home) -> None:
    run = Run(home.application("app"), {10: come("3")}, seconds=55, fails=True)
    assert [at for at, _ in run.play()] == [0, 10 + SETTLED_SECONDS, 10 + 2 * SETTLED_SECONDS]
    answer = Rescaled.read(run.home.rescaled_file)
    assert answer is not None
    assert answer.error == "not today"
