"""The API is as it describes itself: whatever is asked, answers are as it says, and no error is ours.

`BRAID_EXAMPLES=1000 pytest --timeout 3600 -o faulthandler_timeout=0 tests/service/test_schema.py` tries so
many requests of each operation, with both databases.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks

from braid.api.data import publish
from braid.client import models, repo
from braid.client.examples import PROGRAM
from braid.service.main import create_app
from braid.service.settings import Settings
from braid.service.state import ServiceState
from tests.service.conftest import Tried
from tests.service.test_deploying import deploy

EXAMPLES = int(os.environ.get("BRAID_EXAMPLES", "10"))
"""How many requests are tried of each operation."""


def described() -> dict[str, Any]:
    """The description of the API, which is the same whatever the service has."""
    state = SimpleNamespace(settings=Settings(home=Path("nowhere")), loops=[])
    return create_app(cast(ServiceState, state)).openapi()


OPERATIONS = {
    operation["operationId"]: "requestBody" in operation
    for operations in described()["paths"].values()
    for operation in operations.values()
}
"""And whether they have a body."""


def excluded(operation: str) -> list[Any]:
    """What does not hold of an operation, and need not."""
    # It leaves out tokens of its own only: test_guarding.py tries all operations without one.
    found: list[Any] = [checks.ignored_auth]
    if operation in ("plan", "deploy", "make_token"):
        # Not every text is a program, and an admin is not limited.
        found.append(checks.positive_data_acceptance)
    if not OPERATIONS[operation]:
        found.append(checks.negative_data_rejection)  # names of parameters that are not known are passed over
    return found


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "tried", [{}, pytest.param({"registry": "postgresql"}, marks=pytest.mark.slow)], indirect=True
)
def test_answers_are_as_described(tried: Tried, operation: str) -> None:
    for name in ("queries", "clicks"):
        publish(name, [{"id": "q1", "at": 1_700_000_000}], tried.state.home)
    deploy(tried, PROGRAM)
    tried.settle()
    schema = schemathesis.openapi.from_dict(tried.app.openapi())
    schema.app = tried.app
    (found,) = [
        one.ok() for one in schema.get_all_operations() if one.ok().definition.raw["operationId"] == operation
    ]
    strategies = [
        found.as_strategy(generation_mode=mode)
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    ]

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(case=st.one_of(strategies))
    def holds(case: Any) -> None:
        case.call_and_validate(
            base_url="http://127.0.0.1", headers=dict(tried.http.headers), excluded_checks=excluded(operation)
        )

    holds()


def test_all_that_is_described_has_an_example_which_is_right() -> None:
    found = described()
    for name, model in found["components"]["schemas"].items():
        if "enum" in model or name == "Resources":
            continue
        (example,) = model["examples"]
        told = (getattr(models, name, None) or getattr(repo, name)).model_validate(example)
        assert told.model_dump(mode="json", exclude_none=True).keys() == example.keys(), name
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            assert operation["tags"], path
            assert operation["summary"], path
            assert operation["description"], path
            for parameter in operation.get("parameters", []):
                assert parameter.get("description"), (path, parameter["name"])
            for status, answer in operation["responses"].items():
                (content,) = answer["content"].values()
                reference = content["schema"].get("$ref") or content["schema"].get("items", {}).get("$ref")
                assert reference or "example" in content, (method, path, status)
                assert status < "400" or "example" in content, (method, path, status)


def test_operations_have_names_of_their_own() -> None:
    names = [
        operation["operationId"]
        for operations in described()["paths"].values()
        for operation in operations.values()
    ]
    assert len(names) == len(set(names))
    assert all(name.isidentifier() for name in names)
