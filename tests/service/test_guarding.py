"""Nobody gets in who should not, and secrets are told once."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid.api.data import publish
from braid.client.models import Role
from braid.service.errors import UnknownError
from braid.service.identity import identify
from tests.service.conftest import Tried

API = "/api/v1"


def operations(tried: Tried) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """All operations of the API: method, path and description."""
    for path, found in tried.app.openapi()["paths"].items():
        for method, operation in found.items():
            yield method.upper(), path.format(name="x", number=1), operation


def test_nobody_gets_in_without_a_token(tried: Tried) -> None:
    right = str(tried.http.headers["Authorization"]).removeprefix("Bearer ")
    wrongs = [
        "",
        "Bearer",
        "Bearer ",
        "Bearer braid_wrong",
        "Basic YTpi",
        right,
        f"Basic {right}",
        f"Bearer{right}",
    ]
    wrongs += [f"Bearer {right[:-1]}", f"Bearer {right}x", f"Bearer {right.upper()}", f"Bearer x {right}"]
    wrongs += [f"Bearer {right},{right}", "Bearer \x00", "Bearer " + "a" * 10_000, "Bearer ' OR 1=1 --"]
    for method, path, _ in operations(tried):
        if path == f"{API}/health":
            assert tried.http.get(path, headers={"Authorization": ""}).status_code == 200
            continue
        for wrong in wrongs:
            answer = tried.http.request(method, path, headers={"Authorization": wrong}, json={})
            assert answer.status_code == 401, (method, path, wrong, answer.text)
            assert answer.headers["www-authenticate"] == "Bearer"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_no_other_secret_is_a_token(tried: Tried, secret: str) -> None:
    with tried.state.database.reading() as session, pytest.raises(UnknownError):
        identify(session, secret, 0.0, "here")


def test_all_operations_but_health_need_a_token(tried: Tried) -> None:
    schema = tried.http.get(f"{API}/openapi.json").json()
    open_ = [
        path
        for path, operations in schema["paths"].items()
        for operation in operations.values()
        if not operation.get("security")
    ]
    assert open_ == [f"{API}/health"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[", "localhost@evil.example", "evil@localhost"]
)
def test_other_hosts_and_origins_are_refused(tried: Tried, host: str) -> None:
    assert tried.http.get(f"{API}/service", headers={"Host": host}).status_code == 421
    origin = {"Origin": f"http://{host}"}
    assert tried.http.get(f"{API}/service", headers=origin).status_code == 421
    assert tried.http.get(f"{API}/service", headers={"Origin": "null"}).status_code == 421
    # The page of another program on this machine differs by its port.
    assert tried.http.get(f"{API}/service", headers={"Origin": "http://localhost:3000"}).status_code == 421
    own = {"Host": "localhost:7077", "Origin": "http://127.0.0.1:7077"}
    assert tried.http.get(f"{API}/service", headers=own).status_code == 200


def test_roles_and_rows(tried: Tried) -> None:
    publish("l", [{"id": 1}], tried.state.home)
    viewer = tried.token("vera", Role.VIEWER)
    assert tried.http.get(f"{API}/categories", headers=viewer).json()[0]["name"] == "l"
    for method, path in (("GET", "/tokens"), ("GET", "/audit"), ("POST", "/applications/x/stop")):
        assert tried.http.request(method, API + path, headers=viewer).status_code == 403
    rows = f"{API}/categories/l/rows"
    assert tried.http.get(rows, headers=viewer).status_code == 403
    seeing = tried.token("rosa", Role.VIEWER, rows=True)
    assert len(tried.http.get(rows, headers=seeing).json()["rows"]) == 1
    records = {"records": [{"id": 2}]}
    assert tried.http.post(f"{API}/categories/l/records", json=records, headers=viewer).status_code == 403
    editor = tried.token("eddy")
    assert tried.http.post(f"{API}/categories/l/records", json=records, headers=editor).status_code == 201


def test_tokens_are_made_dropped_and_expire(tried: Tried) -> None:
    made = tried.http.post(f"{API}/tokens", json={"name": "ann", "role": "editor", "days": 1}).json()
    ann = {"Authorization": f"Bearer {made['secret']}"}
    assert tried.http.get(f"{API}/service", headers=ann).status_code == 200
    tried.http.delete(f"{API}/tokens/{made['id']}")
    assert tried.http.get(f"{API}/service", headers=ann).status_code == 401
    assert tried.http.delete(f"{API}/tokens/{made['id']}").status_code == 404
    short = tried.http.post(f"{API}/tokens", json={"name": "bob", "days": 1e-9}).json()
    bob = {"Authorization": f"Bearer {short['secret']}"}
    assert tried.http.get(f"{API}/service", headers=bob).status_code == 401
    assert [one["action"] for one in tried.http.get(f"{API}/audit").json()] == [
        "make token",
        "drop token",
        "make token",
    ]


def test_secrets_are_nowhere_in_clear(tried: Tried) -> None:
    secret = tried.http.post(f"{API}/tokens", json={"name": "ann"}).json()["secret"]
    told = "".join(tried.http.get(API + path).text for path in ("/tokens", "/audit", "/events"))
    assert secret not in told
    folder = tried.state.folder
    own = folder.token_file.read_text().strip()
    assert stat.S_IMODE(folder.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700
    for path in folder.root.iterdir():
        if path != folder.token_file:
            data = path.read_bytes()
            assert secret.encode() not in data
            assert own.encode() not in data


def test_errors_are_problems_without_a_traceback(tried: Tried) -> None:
    for method, path, body in (
        ("GET", "/nowhere", None),
        ("POST", "/plans", {}),
        ("POST", "/plans", {"program": "x", "other": 1}),
        ("POST", "/deployments", [1]),
        ("GET", "/applications/..%2F..", None),
        ("GET", "/categories/none/rows", None),
        ("PATCH", "/applications", None),
    ):
        answer = tried.http.request(method, API + path, json=body)
        assert 400 <= answer.status_code < 500, (path, answer.text)
        assert answer.json()["what"]
        assert "Traceback" not in answer.text
