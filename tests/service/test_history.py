"""Events and audit: found by what they are about, and read page by page."""

from __future__ import annotations

import pytest

from braid.client.models import Role
from braid.service.identity import Identity
from braid.service.records import changed, happened
from tests.service.conftest import Tried

API = "/api/v1"


@pytest.fixture(autouse=True)
def history(tried: Tried) -> None:
    """Twelve of each: of two applications, kinds and people in turn."""
    with tried.state.database.transaction() as session:
        for number in range(1, 13):
            name, kind = ("ab"[number % 2], ("failed", "version", "ended")[number % 3])
            happened(session, 1000.0 + number, name, kind, f"text {number}")
            who = Identity(("ann", "bob")[number % 2], Role.EDITOR, rows=False)
            changed(session, 1000.0 + number, who, "deploy" if number % 3 else "stop", name)


def ids(tried: Tried, path: str, **params: object) -> list[int]:
    answer = tried.http.get(API + path, params={name: str(value) for name, value in params.items()})
    assert answer.status_code == 200, answer.text
    return [one["id"] for one in answer.json()]


def test_events(tried: Tried) -> None:
    assert ids(tried, "/events") == list(range(1, 13))
    assert ids(tried, "/events", limit=3) == [10, 11, 12]
    assert ids(tried, "/events", limit=3, before=10) == [7, 8, 9]
    assert ids(tried, "/events", limit=3, after=4) == [5, 6, 7]
    assert ids(tried, "/events", after=4, before=7) == [5, 6]
    assert ids(tried, "/events", application="a", since=1007) == [8, 10, 12]
    assert ids(tried, "/events", kind="failed") == [3, 6, 9, 12]
    assert ids(tried, "/events", kind="failed", application="b") == [3, 9]
    assert ids(tried, "/events", application="nobody") == []


def test_audit(tried: Tried) -> None:
    assert ids(tried, "/audit", limit=3) == [12, 11, 10]
    assert ids(tried, "/audit", limit=3, before=10) == [9, 8, 7]
    assert ids(tried, "/audit", by="ann", since=1007) == [12, 10, 8]
    assert ids(tried, "/audit", action="stop", on="b") == [9, 3]
    assert ids(tried, "/audit", by="nobody") == []


def test_pages_come_to_all_there_is(tried: Tried) -> None:
    for path in ("/events", "/audit"):
        found: list[int] = []
        before = 100
        while (
            page := ids(tried, path, limit=5, before=before, kind="failed")
            if path == "/events"
            else ids(tried, path, limit=5, before=before)
        ):
            found += page
            before = min(page)
        assert sorted(found) == ([3, 6, 9, 12] if path == "/events" else list(range(1, 13)))


def test_what_is_asked_for_is_within_what_there_can_be(tried: Tried) -> None:
    for path, params in (
        ("/events", {"since": "-1"}),
        ("/events", {"since": "nan"}),
        ("/events", {"before": "0"}),
        ("/events", {"before": str(2**64)}),
        ("/events", {"kind": "a\x00"}),
        ("/audit", {"by": "a\x1b"}),
        ("/audit", {"on": ""}),
        ("/audit", {"limit": "1001"}),
    ):
        assert tried.http.get(API + path, params=params).status_code == 422, (path, params)
