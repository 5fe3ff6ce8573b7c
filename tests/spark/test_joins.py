"""Every kind of join, from text to drained output, against DuckDB."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from braid import api
from braid.core.errors import BraidError
from braid.home.paths import Home
from tests.spark.oracle import differences, read
from tests.spark.questions import (
    DISORDER,
    QUESTIONS,
    SORTED,
    Question,
    categories,
    generate,
    halves,
    publish,
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def results(
    spark: object, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, list[object]]:
    """Differences of every question that is asked, from one home over one session, two at a time.

    Half of the input comes first; the applications that are to be restarted take it, and are stopped.
    """
    from braid.spark.app import Application

    home = Home.at(Path(tmp_path_factory.mktemp("joins")))
    streams = generate(seed=11)
    first, rest = halves(categories(streams))
    own = [item for item in request.session.items if item.path == request.path]
    wanted = {item.callspec.params["name"] for item in own if hasattr(item, "callspec")}
    asked = [question for question in QUESTIONS if question.name in wanted]
    early: dict[str, int] = {}

    def begin(question: Question) -> None:
        with Application(api.compile_text(question.pql()).plan, home, spark=spark) as running:
            running.process_available()
        early[question.name] = read(home, f"{question.name}.out").num_rows

    def run(question: Question) -> tuple[str, list[object]]:
        try:
            app = Application(api.compile_text(question.pql()).plan, home, spark=spark, drain=True)
            assert app.start().wait(150)
        except BraidError as error:
            return question.name, [str(error)]
        found = read(home, f"{question.name}.out")
        rows = differences(found, question.sql(streams, found.column_names), streams)
        if question.restarted and not 20 < early[question.name] < found.num_rows - 20:
            rows = [f"{early[question.name]} of {found.num_rows} rows before the restart", *rows]
        return question.name, rows if found.num_rows > 50 else [found.num_rows, *rows]

    with ThreadPoolExecutor(2) as pool:
        publish(home.log(), first)
        list(pool.map(begin, [question for question in asked if question.restarted]))
        publish(home.log(), rest, seed=2)
        return dict(pool.map(run, asked))


def test_streams_are_as_far_out_of_order_as_is_declared() -> None:
    for name, rows in categories(generate(seed=11)).items():
        times = [row["t"] for row in rows if row["t"] is not None]
        behind = [newest - time for newest, time in zip(itertools.accumulate(times, max), times, strict=True)]
        if name.startswith(SORTED):
            assert max(behind) == 0
        else:
            assert 0.8 * DISORDER < max(behind) <= DISORDER
            assert sum(map(bool, behind)) > len(times) / 2


@pytest.mark.parametrize("name", [question.name for question in QUESTIONS])
def test_drained_output_equals_the_answer(results: dict[str, list[object]], name: str) -> None:
    assert results[name] == []
