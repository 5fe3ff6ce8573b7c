"""Tokens that are limited to some applications change no others, by no operation."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.api.data import publish
from braid.client.models import NewToken, Role
from braid.core.owner import Owner
from braid.service.identity import Identity
from braid.service.reach import may_publish, may_see
from tests.service.conftest import Tried
from tests.service.test_deploying import API, deploy, program

LIMITED = ["search_*", "ads?"]


@pytest.fixture
def limited(tried: Tried) -> dict[str, str]:
    """Headers of somebody who may change but some applications."""
    for name in "lr":
        publish(name, [{"id": 1, "t": 1_700_000_000, "k": "a"}], tried.state.home)
    return tried.token("lea", Role.APPROVER, rows=True, only=LIMITED)


def test_no_operation_changes_another_application(tried: Tried, limited: dict[str, str]) -> None:
    deploy(tried, program(name="clicks"))
    deploy(tried, program(name="search_clicks", out="elsewhere"))
    paths = tried.http.get(f"{API}/openapi.json").json()["paths"]
    checked = []
    for path, operations in paths.items():
        for method in operations.keys() - {"get"}:
            if "/applications/{name}" not in path:
                continue
            for name in ("clicks", "nobody", "xsearch_a", "ads12", "SEARCH_A"):
                url = path.format(name=name, number=1)
                body = {"hash": "0" * 64} if path.endswith("approve") else {}
                answer = tried.http.request(method, url, json=body, headers=limited)
                assert answer.status_code == 403, (method, url, answer.text)
                assert "may not change" in answer.json()["what"]
            checked.append(f"{method} {path.removeprefix(f'{API}/applications/')}")
    assert {"delete {name}", "post {name}/rollback", "post {name}/rescale"} < set(checked)
    listed = tried.http.get(f"{API}/applications", headers=limited).json()
    assert [(one["name"], one["desired"]) for one in listed] == [
        ("clicks", "running"),
        ("search_clicks", "running"),
    ]


def test_what_it_is_for_it_may_do(tried: Tried, limited: dict[str, str]) -> None:
    assert "may not change" in deploy(tried, program(name="clicks"), 403, limited)["what"]
    assert tried.http.post(f"{API}/plans", json={"program": program()}, headers=limited).status_code == 200
    assert deploy(tried, program(name="search_a"), headers=limited)["author"] == "lea"
    assert deploy(tried, program(name="ads1", out="elsewhere"), headers=limited)["author"] == "lea"
    assert tried.http.post(f"{API}/applications/search_a/stop", headers=limited).status_code == 200
    assert tried.http.post(f"{API}/applications/search_b/stop", headers=limited).status_code == 404
    tried.settle()
    assert tried.http.delete(f"{API}/applications/search_a", headers=limited).status_code == 200


def test_publishing_and_rows(tried: Tried, limited: dict[str, str]) -> None:
    home = tried.state.home
    home.log().create("theirs", raw=True, owner=Owner("clicks", "out"))
    home.log().create("ours", raw=True, owner=Owner("search_a", "out"))

    def publishes(category: str) -> int:
        body = {"records": [{"id": 1}]}
        return tried.http.post(f"{API}/categories/{category}/records", json=body, headers=limited).status_code

    def sees(category: str) -> int:
        return tried.http.get(f"{API}/categories/{category}/rows", headers=limited).status_code

    # Nobody reads these inputs yet.
    assert (publishes("l"), sees("l")) == (403, 403)
    assert (publishes("search_queries"), sees("search_queries")) == (201, 200)
    deploy(tried, program(name="search_a"), headers=limited)
    assert (publishes("l"), sees("l")) == (201, 200)
    deploy(tried, program(name="clicks", out="elsewhere"))
    assert (publishes("l"), sees("l")) == (403, 200)
    assert (publishes("theirs"), sees("theirs")) == (403, 403)
    assert sees("ours") == 200
    blind = tried.token("ben", Role.EDITOR, only=LIMITED)
    assert tried.http.get(f"{API}/categories/ours/rows", headers=blind).status_code == 403


def test_whoever_may_not_see_rows_gives_nobody_that_right(tried: Tried) -> None:
    admin = tried.token("adam", Role.ADMIN)
    asked = {"name": "eve", "rows": True}
    assert tried.http.post(f"{API}/tokens", json=asked, headers=admin).status_code == 403
    assert tried.http.post(f"{API}/tokens", json=asked).status_code == 201
    assert tried.http.post(f"{API}/tokens", json={"name": "eve"}, headers=admin).status_code == 201


def test_what_tokens_may_be_limited_to(tried: Tried, limited: dict[str, str]) -> None:
    for wrong in (["a b"], [""], ["[a]"], ["a/b"], ["x"] * 51, "search_*"):
        answer = tried.http.post(f"{API}/tokens", json={"name": "a", "only": wrong})
        assert answer.status_code == 422, wrong
    answer = tried.http.post(f"{API}/tokens", json={"name": "a", "role": "admin", "only": ["a"]})
    assert "limits would mean nothing" in answer.json()["what"]
    made = tried.http.post(f"{API}/tokens", json={"name": "a", "only": ["search_*"]}).json()
    assert made["only"] == ["search_*"]
    told = tried.http.get(f"{API}/whoami", headers=limited).json()
    assert told == {
        "name": "lea",
        "by": "token",
        "role": "approver",
        "rows": True,
        "only": LIMITED,
        "source": "testclient",
    }


@pytest.mark.parametrize("tried", [{"auth": "none"}], indirect=True)
def test_without_authentication_anybody_is_an_admin_and_the_audit_says_so(tried: Tried) -> None:
    bare = {"Authorization": ""}
    told = tried.http.get(f"{API}/whoami", headers=bare).json()
    assert (told["name"], told["by"], told["role"], told["rows"]) == ("anybody", "nothing", "admin", True)
    assert tried.http.post(f"{API}/tokens", json={"name": "ann"}, headers=bare).status_code == 201
    audit: Any = tried.http.get(f"{API}/audit", headers=bare).json()
    assert [(one["who"], one["action"]) for one in audit] == [("anybody", "make token")]


names = st.from_regex(r"[ab*?_]{1,6}", fullmatch=True)


@given(st.lists(names, min_size=1, max_size=3), st.from_regex(r"[ab_]{1,6}", fullmatch=True))
def test_patterns_mean_what_they_say(only: list[str], name: str) -> None:
    meant = ["".join({"*": ".*", "?": "."}.get(letter, letter) for letter in pattern) for pattern in only]
    who = Identity("ann", Role.EDITOR, rows=True, only=tuple(NewToken(name="a", only=only).only))
    assert who.covers(name) == any(re.fullmatch(pattern, name) for pattern in meant)


@given(st.sampled_from([None, "a1", "b1"]), st.lists(st.sampled_from(["a1", "a2", "b1", "b2"]), max_size=3))
def test_whoever_may_publish_changes_nobody_elses(owner: str | None, readers: list[str]) -> None:
    who = Identity("ann", Role.EDITOR, rows=True, only=("a*",))
    involved = [*readers, *([] if owner is None else [owner])]
    for category in ("a_in", "in"):
        if may_publish(who, category, owner, readers):
            assert all(name.startswith("a") for name in involved)
            assert may_see(who, category, owner, readers)
        anybody = Identity("bob", Role.EDITOR, rows=True)
        assert may_publish(anybody, category, owner, readers)
        assert may_see(anybody, category, owner, readers)
