"""What a run tells of its needs: of a query that begins anew, nothing of its predecessor's is believed."""

from __future__ import annotations

import shutil

from braid import api
from braid.engine.needs import RunNeeds
from braid.engine.upkeep import facts_of
from braid.home.files import write_json
from braid.home.needs import KEPT, QueryNeeds
from braid.home.paths import Home
from braid.plan.serialise import plan_to_json
from tests.engine.test_drop import READER


def needed(home: Home) -> int:
    """The lowest commit that the application, as far as upkeep knows, needs."""
    facts = facts_of(home.application("reader"))
    assert facts is not None
    return facts.needs.get("copy", QueryNeeds()).needed("once")


def test_needs_are_those_of_the_checkpoint_that_is_there(home: Home) -> None:
    plan, app = api.compile_text(READER).plan, home.application("reader")
    write_json(app.plan_file, plan_to_json(plan))
    RunNeeds(app, plan).write()
    app.checkpoint("copy").mkdir(parents=True)
    run = RunNeeds(app, plan)
    for batch in range(2 * KEPT):
        run.take("copy", batch, f'{{"next": [{batch}, 0]}}' if batch else None, None, 1.0)
    assert needed(home) == 0
    run.write()
    assert needed(home) == KEPT - 1
    run = RunNeeds(app, plan)
    run.take("copy", 2 * KEPT - 1, None, None, 2.0)  # a micro-batch that is repeated tells nothing new
    run.take("copy", 2 * KEPT, '{"next": [99, 0]}', None, 2.0)
    run.write()
    assert needed(home) == KEPT
    shutil.rmtree(app.checkpoint("copy"))
    assert needed(home) == 0
    RunNeeds(app, plan).write()
    app.checkpoint("copy").mkdir()
    assert needed(home) == 0
