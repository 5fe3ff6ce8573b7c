"""Logins on another device: `braid login`, what it keeps, and what commands make of it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from braid.cli.main import app
from braid.client import login
from braid.client.http import AnswerError, service_of
from braid.client.login import Shown, credentials_file, has_login, log_in, log_out, token_of
from braid.core.errors import BraidError, ConfigError, RunError
from braid.home.paths import Home
from braid.service.oidc import Access, FetchedKeys, Issuer
from tests.service.conftest import Tried
from tests.service.issuer import TestIssuer, issuing
from tests.service.test_oidc import ROLES
from tests.service.test_raw import listens


@pytest.fixture
def issuer() -> Iterator[TestIssuer]:
    with issuing() as found:
        yield found


@pytest.fixture
def server(
    tried: Tried, issuer: TestIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of a service that takes tokens of the issuer, and nobody has logged in to yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("BRAID_TOKEN", "BRAID_SERVER", "BRAID_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    tried.state.settings = tried.state.settings.model_copy(
        update={"port": 0, "oidc_issuer": issuer.url, "oidc_client": "braid"}
    )
    access = Access(issuer.url, "braid", "sub", "groups", ROLES, ())
    tried.state.issuer = Issuer(access, FetchedKeys(issuer.url))
    with listens(tried) as port:
        yield f"http://127.0.0.1:{port}"


def no_sleep(seconds: float) -> None:
    assert seconds >= 0


def test_somebody_logs_in_and_is_known_until_they_log_out(
    server: str, issuer: TestIssuer, tmp_path: Path
) -> None:
    shown: list[Shown] = []
    slept: list[float] = []
    issuer.pending, issuer.slow_down = 2, True
    nowhere = Home.at(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="braid login"):
        service_of(nowhere, server)
    log_in(server, shown.append, sleep=slept.append)
    assert shown == [Shown(f"{issuer.url}/go", "ABCD-EFGH", f"{issuer.url}/go?code=ABCD-EFGH", issuer.url)]
    assert slept == [1.0, 6.0, 6.0, 6.0]
    file = credentials_file()
    assert file == tmp_path / "config" / "braid" / "credentials.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    client = service_of(nowhere, f"{server}/")
    assert client is not None
    with client:
        found = client.whoami()
    assert (found.name, found.role, found.by) == ("ann", "editor", "issuer")
    assert log_out(server)
    assert not issuer.given
    assert not has_login(server)
    assert not log_out(server)
    assert json.loads(file.read_text()) == {}


def test_a_login_is_renewed_before_it_ends(server: str, issuer: TestIssuer, tmp_path: Path) -> None:
    first = log_in(server, lambda shown: None, sleep=no_sleep)
    soon = first.expires - 61
    assert token_of(server, lambda: soon) == first.token
    second = token_of(server, lambda: soon + 2)
    assert second is not None
    assert issuer.refreshes == 1
    assert token_of(server) == second
    issuer.given.clear()
    with pytest.raises(ConfigError, match="the session is over") as told:
        token_of(server, lambda: soon + 10_000)
    assert "braid login" in str(told.value)
    # Commands that take long ask for another token by themselves.
    issuer.seconds = 30
    log_in(server, lambda shown: None, sleep=no_sleep)
    client = service_of(Home.at(tmp_path / "nowhere"), server)
    assert client is not None
    with client:
        before = issuer.refreshes
        assert client.whoami().name == client.whoami().name == "ann"
        assert issuer.refreshes == before + 2


def test_what_can_go_wrong_is_said(server: str, issuer: TestIssuer, tmp_path: Path) -> None:
    def fails(match: str, error: type[BraidError] = RunError) -> None:
        with pytest.raises(error, match=match):
            log_in(server, lambda shown: None, sleep=no_sleep)

    issuer.answers["/device"] = (400, b'{"error": "unauthorized_client"}')
    fails("unauthorized_client", ConfigError)
    issuer.answers["/device"] = (500, b"oops")
    fails("answers 500, without JSON")
    issuer.answers["/device"] = (200, b"{}")
    fails("does not say what it should")
    issuer.answers = {"/token": (400, b'{"error": "access_denied", "error_description": "no"}')}
    fails("refuses: no", ConfigError)
    issuer.answers["/token"] = (200, b'{"token_type": "Bearer"}')
    fails("no token")
    metadata = issuer.metadata()
    del metadata["device_authorization_endpoint"]
    issuer.answers = {"/.well-known/openid-configuration": (200, json.dumps(metadata).encode())}
    fails("no login on another device")
    issuer.answers["/.well-known/openid-configuration"] = (503, b"")
    fails("answers 503")
    issuer.answers.clear()
    issuer.pending = 10**6
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    with pytest.raises(RunError, match="nobody has logged in in time"):
        log_in(server, lambda shown: None, clock=lambda: now, sleep=sleep)
    assert not has_login(server)


def test_a_file_that_others_may_read_is_not_used(server: str) -> None:
    log_in(server, lambda shown: None, sleep=no_sleep)
    credentials_file().chmod(0o644)
    with pytest.raises(ConfigError, match="others may read"):
        token_of(server)
    credentials_file().chmod(0o600)
    credentials_file().write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        token_of(server)


def test_a_service_without_an_issuer_says_so(
    tried: Tried, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_CREDENTIALS", str(tmp_path / "credentials.json"))
    tried.state.settings = tried.state.settings.model_copy(update={"port": 0})
    with listens(tried) as port, pytest.raises(RunError, match="does not say whose logins it takes"):
        log_in(f"http://127.0.0.1:{port}", lambda shown: None)


def test_a_login_is_for_one_service(server: str, tmp_path: Path) -> None:
    log_in(server, lambda shown: None, sleep=no_sleep)
    for other in (
        "http://127.0.0.1:1",
        server.replace("http", "https"),
        f"{server}/x",
        server.replace("127.0.0.1", "localhost"),
    ):
        assert token_of(other) is None
        with pytest.raises(ConfigError, match="there is no token"):
            service_of(Home.at(tmp_path / "nowhere"), other)


def test_a_token_that_is_given_comes_first(server: str, tmp_path: Path) -> None:
    log_in(server, lambda shown: None, sleep=no_sleep)
    client = service_of(Home.at(tmp_path / "nowhere"), server, "braid_wrong")
    assert client is not None
    with client, pytest.raises(AnswerError, match="not valid"):
        client.whoami()
    assert login._key("HTTP://A.Example:80/x/") == "http://a.example:80/x"


def test_commands_log_in_and_out(server: str, issuer: TestIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login.time, "sleep", no_sleep)
    run = CliRunner()

    def braid(*arguments: str, code: int = 0) -> str:
        done = run.invoke(app, [*arguments, "--server", server])
        assert done.exit_code == code, done.output
        return done.output

    assert "open http://127.0.0.1" in (said := braid("login"))
    assert "ABCD-EFGH" in said
    assert "ann, known by issuer, from 127.0.0.1" in braid("whoami")
    assert braid("apps")
    assert "logged out" in braid("logout")
    assert "nobody was logged in" in braid("logout")
    braid("apps", code=1)
