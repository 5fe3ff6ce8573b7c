"""What a run tells of itself, as long as nobody has taken its place."""

from __future__ import annotations

import pytest
import structlog

from braid import api
from braid.core.config import parse_options
from braid.core.errors import RunError
from braid.engine.silences import Silences
from braid.home.lease import take_lease
from braid.home.paths import Home
from braid.home.status import RunState
from braid.spark.run_report import RunReport
from tests.contents import contents

PROGRAM = """
CREATE APPLICATION app;
CREATE INPUT TABLE l (id bigint, t timestamp) FROM SCRIBE("l") TIME t;
CREATE TABLE copied AS SELECT id FROM l STORAGE SCRIBE(category = "copied");
"""


class NoQueries:
    """The queries of a run that has none."""

    stages: dict[str, object] = {}  # noqa: RUF012
    relays: dict[str, object] = {}  # noqa: RUF012


def report(home: Home) -> RunReport:
    plan = api.compile_text(PROGRAM).plan
    application = home.application("app")
    application.metrics_file("any").parent.mkdir(parents=True, exist_ok=True)
    found = RunReport(application, plan, parse_options({}), None, None)
    found.holder = take_lease(application)
    found.begin()
    return found


def test_a_run_that_was_replaced_writes_nothing_more(home: Home) -> None:
    stale, log = report(home), structlog.get_logger()
    silences = Silences(log)
    stale.turn(NoQueries(), silences, log)  # type: ignore[arg-type]
    successor = report(home)
    successor.status.state = RunState.RUNNING
    successor.end()
    before = contents(home)
    stale.status.state = RunState.FAILED
    with pytest.raises(RunError, match="it was replaced"):
        stale.turn(NoQueries(), silences, log)  # type: ignore[arg-type]
    stale.end()
    assert contents(home) == before
