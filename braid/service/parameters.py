"""What operations of the API have in common: names in paths, and the errors that they may answer with."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import StringConstraints

from braid.client.models import MOST, PRINTED, Problem
from braid.log.layout import MAX_NAME

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$"
"""Of applications and categories, as in paths of a home."""

MOST_EVENTS = 2**53
"""All numbers up to it are the same in JavaScript."""

ApplicationName = Annotated[
    str, Path(pattern=NAME, max_length=MAX_NAME, description="An application.", examples=["search_app"])
]
CategoryName = Annotated[
    str, Path(pattern=NAME, max_length=MAX_NAME, description="A category.", examples=["clicked"])
]
VersionNumber = Annotated[
    int, Path(ge=1, le=MOST, description="A version, as the application counts them.", examples=[1])
]
TokenNumber = Annotated[
    str, Path(pattern="^[A-Za-z0-9]{1,40}$", description="The `id` of a token.", examples=["3f9a1b2c4d5e"])
]

Printed = Annotated[str, StringConstraints(pattern=PRINTED, max_length=MAX_NAME)]
"""A text without what a terminal would obey, and a database could not compare."""
Moment = Annotated[
    float | None,
    Query(ge=0, le=1e11, description="Only since then, in seconds since 1970.", examples=[1_763_456_789.0]),
]
Earlier = Annotated[
    int | None,
    Query(ge=1, le=MOST_EVENTS, description="Only those before this number, to go back.", examples=[1000]),
]

_PROBLEMS = {
    400: ("It cannot be read.", "There was an error parsing the body", None),
    401: ("Nobody knows who asks.", "this needs a token", "send `Authorization: Bearer TOKEN`"),
    403: ("Whoever asks may not do that.", "'ann' is viewer, and this needs editor", None),
    404: ("There is no such thing.", "there is no application 'clicks'", "applications: search_app"),
    409: (
        "It cannot be done as things are, or nobody has agreed to what it would do.",
        "application 'search_app' is not stopped",
        "stop it first: braid stop search_app",
    ),
    413: ("The body is too large.", "the body of the request is larger than 16,777,216 bytes", None),
    421: (
        "It names another host than this service's.",
        "the request names another host than this service's",
        "see the setting `hosts`",
    ),
    422: ("Something in it is wrong.", "unknown option 'shard'", "did you mean 'shards'?"),
    503: (
        "The registry, or the machine, cannot do it now.",
        "the registry does not answer",
        "try again; the output of the service says more",
    ),
}

Responses = dict[int | str, dict[str, Any]]


def problems(*statuses: int) -> Responses:
    """Errors that an operation may answer with, as its description says them."""
    return {status: _response(*_PROBLEMS[status]) for status in statuses}


def _response(description: str, what: str, hint: str | None) -> dict[str, Any]:
    example = {"what": what, "where": None, "hint": hint}
    return {
        "model": Problem,
        "description": description,
        "content": {"application/json": {"example": example}},
    }


ALWAYS = problems(421, 503)
"""Of all operations."""
KNOWN = problems(401)
"""Of all that ask who asks."""
WITH_BODY = problems(400, 413, 422)
"""Of all that have a body."""
