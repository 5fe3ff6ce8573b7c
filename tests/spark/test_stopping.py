"""A running application is asked to end by somebody else, as by a command in another process."""

from __future__ import annotations

import pytest

from braid import api
from braid.api.data import publish, read
from braid.core.errors import RunError
from braid.home.paths import Home
from braid.home.status import RunState

pytestmark = pytest.mark.spark

PROGRAM = """
CREATE APPLICATION app WITH (shards = 1);
CREATE INPUT TABLE l (id bigint) FROM SCRIBE("l");
CREATE TABLE out AS SELECT id FROM l STORAGE SCRIBE(category = "out");
"""


def test_a_running_application_ends_when_it_is_asked_to_and_goes_on_later(spark: object, home: Home) -> None:
    publish("l", [{"id": 1}], home)
    plan = api.compile_text(PROGRAM).plan
    with api.run(plan, home, spark=spark) as handle:  # type: ignore[arg-type]
        handle.process_available()
        api.stop("app", home)
        assert handle.wait(60)
    assert api.application_status("app", home).state is RunState.STOPPED
    with pytest.raises(RunError, match="is not running"):
        api.stop("app", home)
    publish("l", [{"id": 2}], home)
    api.run(plan, home, spark=spark, drain=True).wait()  # type: ignore[arg-type]
    assert sorted(read("out", home)["id"].to_pylist()) == [1, 2]
