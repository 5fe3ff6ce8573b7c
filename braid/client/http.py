"""A typed client of the service's HTTP API."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from braid.client.models import (
    ApplicationInfo,
    Approval,
    AuditInfo,
    Deleted,
    Deploy,
    EventInfo,
    LogLines,
    NewToken,
    PlanInfo,
    Problem,
    Program,
    Rollback,
    Service,
    TokenInfo,
    Top,
    VersionInfo,
    WhoAmI,
)
from braid.client.repo import FileInfo, RepoInfo
from braid.core.errors import BraidError, ConfigError
from braid.home.paths import Home, HomeLike
from braid.home.service import Address, ServiceHome

SERVER, TOKEN = "BRAID_SERVER", "BRAID_TOKEN"
_PREFIX = "/api/v1"
_SECONDS = 60.0
M = TypeVar("M", bound=BaseModel)


class AnswerError(BraidError):
    """The service has refused what it was asked, or cannot be reached."""

    def __init__(self, status: int | None, problem: Problem) -> None:
        super().__init__(problem.what, where=problem.where, hint=problem.hint)
        self.status = status


def service_of(home: HomeLike = None, server: str | None = None, token: str | None = None) -> Client | None:
    """The service at an address, or that of a home of this machine; None if there is none.

    Parameters
    ----------
    home
        A home; the address and the token of its service are files in it that only their owner can read.
    server, token
        An address, and a token for it; `$BRAID_SERVER` and `$BRAID_TOKEN` by default, and, of the token, what
        `braid login` has kept for the address.
    """
    server, token = server or os.environ.get(SERVER), token or os.environ.get(TOKEN)
    folder = ServiceHome(Home.at(home))
    if server is None:
        try:
            known = Address.read(folder.address_file)
        except PermissionError:
            known = None
        if known is None or not _is_alive(known.pid):
            return None
        token = token or folder.token_file.read_text().strip()
        return Client(known.url, token, certificate=known.certificate)
    if token is not None:
        return Client(server, token)
    from braid.client.login import has_login, token_of

    if not has_login(server):
        raise ConfigError(
            f"there is no token for {server}", hint=f"set ${TOKEN}, or log in: braid login --server {server}"
        )
    address = server
    return Client(address, lambda: token_of(address) or "")


def why_no_service(home: HomeLike = None) -> str | None:
    """Why a home that has had a service has none now, as far as that is to be said; None if it has ended."""
    path = ServiceHome(Home.at(home)).address_file
    try:
        known = Address.read(path)
    except PermissionError:
        return "this user may not know whether a service of this home is running"
    return None if known is None else f"the service of this home has died: its process {known.pid} is gone"


class Client:
    """Asks a service.

    Parameters
    ----------
    url, token
        Its address, and who asks: a token, or what gives one that is valid at the moment.
    certificate
        File of the only certificate to trust, whatever name it has; by default those that are signed by
        somebody known, for the name in the address: see `$SSL_CERT_FILE`.
    """

    def __init__(self, url: str, token: str | Callable[[], str], certificate: str | None = None) -> None:
        self.url = url
        self._token = token
        self._http = httpx.Client(
            base_url=url.rstrip("/") + _PREFIX,
            timeout=_SECONDS,
            trust_env=False,
            verify=_trust(url, certificate),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def service(self) -> Service:
        """What the service is."""
        return self._one(Service, "GET", "/service")

    def whoami(self) -> WhoAmI:
        """Who asks, and what they may do."""
        return self._one(WhoAmI, "GET", "/whoami")

    def plan(self, program: Program) -> PlanInfo:
        """What deploying a program would do."""
        return self._one(PlanInfo, "POST", "/plans", program)

    def deploy(self, asked: Deploy) -> VersionInfo:
        """Land a program."""
        return self._one(VersionInfo, "POST", "/deployments", asked)

    def applications(self) -> list[ApplicationInfo]:
        """All applications."""
        return self._many(ApplicationInfo, "/applications")

    def application(self, name: str) -> ApplicationInfo:
        """An application."""
        return self._one(ApplicationInfo, "GET", f"/applications/{name}")

    def top(self) -> Top:
        """All applications, with their figures."""
        return self._one(Top, "GET", "/top")

    def versions(self, name: str) -> list[VersionInfo]:
        """The versions of an application."""
        return self._many(VersionInfo, f"/applications/{name}/versions")

    def version(self, name: str, number: int) -> VersionInfo:
        """A version, with its program."""
        return self._one(VersionInfo, "GET", f"/applications/{name}/versions/{number}")

    def want(self, name: str, action: str) -> ApplicationInfo:
        """Have an application do `start`, `stop` or `restart`."""
        return self._one(ApplicationInfo, "POST", f"/applications/{name}/{action}")

    def rollback(self, name: str, asked: Rollback) -> VersionInfo:
        """Go back to an earlier version."""
        return self._one(VersionInfo, "POST", f"/applications/{name}/rollback", asked)

    def approve(self, name: str, number: int, hash_: str) -> VersionInfo:
        """Approve a version."""
        asked = Approval(hash=hash_)
        return self._one(VersionInfo, "POST", f"/applications/{name}/versions/{number}/approve", asked)

    def delete(self, name: str, *, keep_data: bool = False, dry_run: bool = False) -> Deleted:
        """Delete an application."""
        params = {"keep_data": keep_data, "dry_run": dry_run}
        return self._one(Deleted, "DELETE", f"/applications/{name}", params=params)

    def logs(self, name: str, after: int | None = None, lines: int = 200) -> LogLines:
        """Lines of an application's log."""
        params = {"lines": lines} | ({} if after is None else {"after": after})
        return self._one(LogLines, "GET", f"/applications/{name}/logs", params=params)

    def events(
        self,
        application: str | None = None,
        after: int = 0,
        limit: int = 100,
        *,
        kind: str | None = None,
        since: float | None = None,
        before: int | None = None,
    ) -> list[EventInfo]:
        """What has happened, oldest first: after a number, or else the last events, before another one."""
        asked = {"application": application, "kind": kind, "since": since, "before": before}
        return self._many(EventInfo, "/events", {"after": after, "limit": limit} | _given(asked))

    def audit(
        self,
        limit: int = 100,
        *,
        by: str | None = None,
        on: str | None = None,
        action: str | None = None,
        since: float | None = None,
        before: int | None = None,
    ) -> list[AuditInfo]:
        """Who has changed what, newest first; before a number, if it is given."""
        asked = {"by": by, "on": on, "action": action, "since": since, "before": before}
        return self._many(AuditInfo, "/audit", {"limit": limit} | _given(asked))

    def tokens(self) -> list[TokenInfo]:
        """All tokens."""
        return self._many(TokenInfo, "/tokens")

    def make_token(self, asked: NewToken) -> TokenInfo:
        """Make a token."""
        return self._one(TokenInfo, "POST", "/tokens", asked)

    def drop_token(self, number: str) -> TokenInfo:
        """Let a token be valid no more."""
        return self._one(TokenInfo, "DELETE", f"/tokens/{number}")

    def repo(self) -> RepoInfo:
        """The folder in Git that is followed, and how its files stand."""
        return self._one(RepoInfo, "GET", "/repo")

    def look(self) -> RepoInfo:
        """Have the service look at the repository now."""
        return self._one(RepoInfo, "POST", "/repo/look")

    def sync(self, name: str) -> FileInfo:
        """Apply what the folder says of an application, whatever was done to it by hand."""
        return self._one(FileInfo, "POST", f"/repo/applications/{name}/sync")

    # -- HTTP -------------------------------------------------------------------------------------

    def _one(
        self,
        model: type[M],
        method: str,
        path: str,
        asked: BaseModel | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> M:
        return self._read(model, self._ask(method, path, asked, params))

    def _many(self, model: type[M], path: str, params: Mapping[str, Any] | None = None) -> list[M]:
        return [self._read(model, one) for one in self._ask("GET", path, None, params)]

    def _ask(self, method: str, path: str, asked: BaseModel | None, params: Mapping[str, Any] | None) -> Any:
        body = None if asked is None else asked.model_dump(mode="json")
        try:
            token = self._token if isinstance(self._token, str) else self._token()
            headers = {"Authorization": f"Bearer {token}"}
            answer = self._http.request(method, path, json=body, params=params, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AnswerError(
                None,
                Problem(
                    what=f"the service does not answer: {error or type(error).__name__}",
                    where=self.url,
                    hint="is it running (`braid serve`), and is the address right?",
                ),
            ) from None
        try:
            value = answer.json()
        except ValueError:
            value = None
        if answer.is_error:
            try:
                problem = Problem.model_validate(value)
            except ValidationError:
                problem = Problem(what=f"the service answers {answer.status_code}", where=self.url)
            raise AnswerError(answer.status_code, problem)
        return value

    def _read(self, model: type[M], value: Any) -> M:
        try:
            return model.model_validate(value)
        except ValidationError as error:
            what = f"the service says what this version does not understand: {error.errors()[0]['msg']}"
            raise AnswerError(None, Problem(what=what, where=self.url)) from None


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _trust(url: str, certificate: str | None) -> ssl.SSLContext | bool:
    """How to know a service with HTTPS; reading certificates takes a while, and is left out without."""
    if not url.startswith("https:"):
        return False
    if certificate is None:
        file = os.environ.get("SSL_CERT_FILE")
        return True if file is None else ssl.create_default_context(cafile=file)
    try:
        context = ssl.create_default_context(cafile=certificate)
    except OSError as error:
        what = f"the service's certificate cannot be read: {error.strerror or error}"
        raise ConfigError(what, where=certificate) from None
    context.check_hostname = False
    # The certificate itself is trusted, whoever has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
