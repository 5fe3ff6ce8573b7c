"""An OpenID Connect issuer of the tests' own: real keys, real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

Key = RSAKey | ECKey
LENIENT = JWSRegistry(algorithms=["RS256", "ES256"], strict_check_header=False)
LENIENT.max_header_length = LENIENT.max_payload_length = 1 << 20


@dataclass
class TestIssuer:
    """What it knows, and what it does on purpose; all of it may be changed while it runs."""

    __test__ = False

    url: str = ""
    client: str = "braid"
    keys: list[Key] = field(default_factory=list)
    paused: threading.Event = field(default_factory=threading.Event)
    """Answers wait for it while it is not set."""
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """What it answers instead, by path."""
    asked: list[str] = field(default_factory=list)
    """Paths, in order."""
    pending: int = 0
    """How often it says that nobody has agreed yet."""
    slow_down: bool = False
    groups: list[str] = field(default_factory=lambda: ["editors"])
    refreshes: int = 0
    seconds: float = 300.0
    """For which tokens are valid."""
    given: set[str] = field(default_factory=set)
    """Refresh tokens that may be used, each once."""

    def __post_init__(self) -> None:
        self.paused.set()
        self.rotate()

    def rotate(self, kind: type[Key] = RSAKey) -> Key:
        """Take another key."""
        parameters = {"kid": f"key{len(self.asked)}-{time.monotonic_ns()}"}
        key: Key = (
            RSAKey.generate_key(2048, parameters)
            if kind is RSAKey
            else ECKey.generate_key("P-256", parameters)
        )
        self.keys = [key]
        return key

    def token(self, key: Key | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token, right unless claims or header say otherwise; None leaves a claim out."""
        key = key or self.keys[0]
        now = int(time.time())
        usual = {
            "iss": self.url,
            "aud": self.client,
            "sub": "ann",
            "exp": now + int(self.seconds),
            "iat": now,
            "groups": self.groups,
        }
        whole = {name: value for name, value in (usual | claims).items() if value is not None}
        algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
        return jwt.encode({"alg": algorithm, "kid": key.kid} | (header or {}), whole, key, registry=LENIENT)

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint": f"{self.url}/token",
            "device_authorization_endpoint": f"{self.url}/device",
            "revocation_endpoint": f"{self.url}/revoke",
        }

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, Any]:
        """What it says."""
        if path == "/.well-known/openid-configuration":
            return 200, self.metadata()
        if path == "/keys":
            return 200, {"keys": [key.as_dict(private=False) for key in self.keys]}
        if path == "/device" and form.get("client_id") == self.client:
            uri = f"{self.url}/go"
            return 200, {
                "device_code": "device-secret",
                "user_code": "ABCD-EFGH",
                "verification_uri": uri,
                "verification_uri_complete": f"{uri}?code=ABCD-EFGH",
                "expires_in": 60,
                "interval": 1,
            }
        if path == "/token":
            return self.tokens(form)
        if path == "/revoke":
            self.given.discard(form["token"])
            return 200, {}
        return 404, {"error": "not_found"}

    def tokens(self, form: dict[str, str]) -> tuple[int, Any]:
        if form.get("grant_type") == "refresh_token":
            if form.get("refresh_token") not in self.given:
                return 400, {"error": "invalid_grant", "error_description": "the session is over"}
            self.given.discard(form["refresh_token"])
            self.refreshes += 1
        elif form.get("device_code") != "device-secret":
            return 400, {"error": "invalid_grant"}
        elif self.slow_down:
            self.slow_down = False
            return 400, {"error": "slow_down"}
        elif self.pending:
            self.pending -= 1
            return 400, {"error": "authorization_pending"}
        refresh = f"refresh-{self.refreshes}"
        self.given.add(refresh)
        return 200, {
            "access_token": "opaque",
            "id_token": self.token(),
            "refresh_token": refresh,
            "expires_in": self.seconds,
            "token_type": "Bearer",
        }


@contextmanager
def issuing() -> Iterator[TestIssuer]:
    """An issuer that listens."""
    issuer = TestIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.reply({name: values[0] for name, values in parse_qs(body).items()})

        def reply(self, form: dict[str, str]) -> None:
            issuer.asked.append(self.path)
            issuer.paused.wait(60)
            status, told = issuer.answer(self.path, form)
            status, data = issuer.answers.get(self.path, (status, json.dumps(told).encode()))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield issuer
    finally:
        issuer.paused.set()
        server.shutdown()
        thread.join(30)
        server.server_close()
