"""Categories: list them, publish records, look at rows."""

from __future__ import annotations

import json

from fastapi import APIRouter, Query

from braid import api
from braid.client.models import CategoryTold, Published, Records, Rows
from braid.core.json_rows import json_rows
from braid.service import reach
from braid.service.errors import NotFoundError
from braid.service.parameters import KNOWN, WITH_BODY, CategoryName, problems
from braid.service.state import Editor, State, Viewer

router = APIRouter(tags=["data"], responses=KNOWN)


@router.get("/categories")
def categories(state: State, who: Viewer) -> list[CategoryTold]:
    """What is in the log, or was a moment ago: where it takes long to look, that is done seldom."""
    return state.categories.get()


@router.get("/categories/{name}/rows", responses=problems(403, 404, 422))
def rows(
    state: State,
    who: Viewer,
    name: CategoryName,
    last: int = Query(20, ge=1, le=1000, description="How many rows."),
) -> Rows:
    """The last rows of a category, for those who may see rows."""
    with state.database.reading() as session:
        reach.check_rows(session, state.home, who, name)
    if not state.home.log().has(name):
        raise NotFoundError(f"there is no category {name!r}", hint="braid categories lists them")
    batches = api.read_batches(name, state.home, last=last)
    return Rows(rows=[json.loads(str(line)) for batch in batches for line in json_rows(batch)])


@router.post("/categories/{name}/records", status_code=201, responses=WITH_BODY | problems(403))
def publish(state: State, who: Editor, name: CategoryName, asked: Records) -> Published:
    """Append records to a category."""
    with state.database.reading() as session:
        reach.check_publish(session, state.home, who, name)
    api.publish(name, asked.records, state.home)
    return Published(published=len(asked.records))
