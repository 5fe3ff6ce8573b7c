"""Requests that no client would send, byte by byte, to a service that really listens."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from braid.client.http import AnswerError, Client
from braid.service.limits import MOST_BYTES
from braid.service.listening import listen
from braid.service.main import http_server
from tests.service.conftest import Tried
from tests.service.test_listening import make_certificate

REQUEST = "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"


@dataclass
class Raw:
    """A service that listens, and a token for it."""

    port: int
    token: str

    def send(self, data: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer to some bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            answer = b""
            with suppress(ConnectionError):  # it has answered, and hung up, before all of it had come
                connection.sendall(data)
            with suppress(ConnectionError):
                while part := connection.recv(1 << 16):
                    answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, body

    def get(
        self, path: str = "/api/v1/service", host: str = "localhost", headers: str = ""
    ) -> tuple[int, bytes]:
        headers = f"Authorization: Bearer {self.token}\r\n{headers}"
        return self.send(REQUEST.format(path=path, host=host, headers=headers).encode("latin-1"))


@contextmanager
def listens(tried: Tried) -> Iterator[int]:
    """The port of a service that listens, without its loops."""
    listening = listen(tried.state.settings)
    config = http_server(tried.app, tried.state.settings)
    config.lifespan = "off"
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


@pytest.fixture
def raw(tried: Tried) -> Iterator[Raw]:
    with listens(tried) as port:
        yield Raw(port, tried.state.folder.token_file.read_text().strip())


pytestmark = pytest.mark.parametrize("tried", [{"port": 0}], indirect=True)


def test_requests_are_for_this_service(raw: Raw) -> None:
    assert raw.get()[0] == 200
    assert raw.get(headers="Host: localhost\r\n")[0] == 400
    assert raw.get(headers="Host: evil.example\r\n")[0] == 400
    assert raw.send(b"GET /api/v1/health HTTP/1.1\r\nConnection: close\r\n\r\n")[0] == 400
    assert raw.send(b"GET /api/v1/health HTTP/1.0\r\n\r\n")[0] == 421
    for path in ("http://evil.example/api/v1/service", "http://localhost/api/v1/service", "*"):
        status, body = raw.get(path)
        assert status == 421
        assert "proxy" in json.loads(body)["what"]
    assert (
        raw.send(b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")[0]
        == 421
    )


def test_nobody_says_that_they_ask_from_elsewhere(raw: Raw) -> None:
    told = json.loads(raw.get("/api/v1/whoami", headers="X-Forwarded-For: 10.0.0.1\r\n")[1])
    assert told["source"] == "127.0.0.1"


PATHS = [
    "/",
    "//",
    "/api",
    "/api/v1",
    "/api/v1/",
    "/api/v2/service",
    "//api/v1/service",
    "/api/v1//service",
    "/api/v1/service/",
    "/API/V1/SERVICE",
    "/api/v1/../v1/service",
    "/api/v1/%2e%2e/v1/service",
    "/api/v1/service%00",
    "/api/v1/service%20",
    "/api/v1%2fservice%2f..",
    "/api/v1/service;x=1",
    "/docs",
    "/redoc",
    "/openapi.json",
    "/service/token",
    "/../service/token",
    "/etc/passwd",
    "/api/v1/applications/..",
    "/api/v1/applications/%2e%2e",
    "/api/v1/applications/..%2f..%2fservice",
    "/api/v1/applications/%00/logs",
    "/api/v1/applications/../service/token",
    "/api/v1/applications/%ff",
    "/api/v1/categories/..%2f..%2fservice/rows",
    "/api/v1/categories/%2e%2e/rows",
    "/api/v1/categories/%00/rows",
    "/api/v1/applications/%ed%a0%80/logs",
    "/api/v1/applications/a%0d%0aX:1",
]


def test_paths_lead_nowhere_else(raw: Raw) -> None:
    for path in (*PATHS, f"/api/v1/applications/{'a' * 5000}"):
        status, body = raw.get(path)
        assert status in (404, 405, 422), (path, body)
        assert json.loads(body)["what"]


def test_headers_and_bodies_have_limits(raw: Raw) -> None:
    assert raw.get(headers=f"X: {'x' * 200_000}\r\n")[0] in (400, 431)
    assert raw.get(headers="".join(f"X{number}: {'x' * 100}\r\n" for number in range(5000)))[0] in (400, 431)
    post = "POST /api/v1/plans HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    post += f"Content-Type: application/json\r\nAuthorization: Bearer {raw.token}\r\n"
    status, body = raw.send(f"{post}Content-Length: {MOST_BYTES + 1}\r\n\r\n".encode())
    assert (status, "larger than" in json.loads(body)["what"]) == (413, True)
    chunk = b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20))
    chunks = chunk * (MOST_BYTES // (1 << 20) + 1) + b"0\r\n\r\n"
    status, body = raw.send(f"{post}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks)
    assert (status, "larger than" in json.loads(body)["what"]) == (413, True)
    for length in ("-1", "1, 2", "x", "1\r\nContent-Length: 2"):
        assert raw.send(f"{post}Content-Length: {length}\r\n\r\n{{}}".encode())[0] == 400
    smuggled = f"{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert raw.send(smuggled.encode())[0] in (400, 422)
    assert raw.get()[0] == 200


def test_bodies_that_are_not_what_they_should_be(raw: Raw) -> None:
    post = "POST /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    post += f"Content-Type: application/json\r\nAuthorization: Bearer {raw.token}\r\n"
    for path in ("plans", "deployments", "tokens", "categories/l/records", "applications/a/rollback"):
        for body in (
            *(
                b"",
                b"{",
                b"\xff",
                b"[" * 200_000,
                b'{"a":' * 100_000,
                b'"\\ud800"',
                b'{"\\ud800": 1}',
                b"NaN",
            ),
            *(b'{"program": "\\ud800"}', b'{"name": "\\ud800"}', b'{"name": "a", "days": NaN}', b"1e999"),
            *(
                b'{"records": [{"\\ud800": 1}]}',
                b'{"records": [{"a": "\\ud800"}]}',
                b'{"program": "\\u0000"}',
            ),
            *(
                b'{"records": [{"a": 1' + b"0" * 5000 + b"}]}",
                b'{"version": 1' + b"0" * 30 + b"}",
                b"1" * 5000,
            ),
        ):
            head = post.format(path=path) + f"Content-Length: {len(body)}\r\n\r\n"
            status, answer = raw.send(head.encode() + body)
            # Records may have halves of letters, which JSON can have.
            published = path.endswith("records") and b"ud800" in body and b"records" in body
            assert 400 <= status < 500 or (published and status == 201), (path, body[:40], status, answer)
            assert published or json.loads(answer)["what"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.binary(max_size=200))
@example(
    b"GET /api/v1/service HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\r\nConnection: close\r\n"
)
def test_no_bytes_get_in(raw: Raw, data: bytes) -> None:
    status, _ = raw.send(data + b"\r\n\r\n")
    assert status in (0, 400, 401, 404, 405, 421)


def test_a_certificate_of_its_own_is_known_to_clients_of_its_home(tried: Tried, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    pem, key = make_certificate(tmp_path / "own")
    tried.state.settings = tried.state.settings.model_copy(update={"tls_certificate": pem, "tls_key": key})
    token = tried.state.folder.token_file.read_text().strip()
    with listens(tried) as port:
        url = f"https://127.0.0.1:{port}"
        with Client(url, token, certificate=str(pem)) as client:
            assert client.whoami().name == "owner"
        other, _ = make_certificate(tmp_path / "other")
        for certificate in (None, str(other)):
            with (
                Client(url, token, certificate=certificate) as client,
                pytest.raises(AnswerError, match="ertificate"),
            ):
                client.whoami()
