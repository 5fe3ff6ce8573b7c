"""Hosts and origins, made of all that a request may have there: what passes is what the service is called."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from braid.core.errors import ConfigError
from braid.service.guard import Guard, known_name

NAMES = [
    "localhost",
    "LocalHost",
    "127.0.0.1",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "braid.example",
    "xn--bcher-kva.example",
]
OTHERS = [
    *(
        "",
        "evil.example",
        "localhost.",
        "localhost.evil.example",
        "evil.example.localhost",
        "localhost%2eevil",
    ),
    *(
        "127.1",
        "0x7f.0.0.1",
        "127.0.0.2",
        "0.0.0.0",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::1%25lo]",
        "::1",
        "[::1",
    ),
    *("bücher.example", "ⅼocalhost", "localhost\x00", "local host", "localhost,evil.example", "[localhost]"),
    *("*", "_", "-", ".", "..", "xn--", "http://localhost", "//localhost", "localhost\\.evil.example"),
]
PORTS = {None: None, "80": None, "443": None, "7077": 7077, "65535": 65535}
WRONG_PORTS = [
    "",
    "0x50",
    "65536",
    "99999",
    "123456",
    "-1",
    "+80",
    " 80",
    "80 ",
    "٨٠",
    "7077:80",
    "80/",
    "80@evil",
]
BEFORE = ["", "user@", "user:password@", "evil.example@", "@", "//", " ", "\t"]
AFTER = ["", "/", "/x", "?x", "#x", " ", "\\", "@evil.example", ",localhost"]

parts = st.tuples(
    st.sampled_from(BEFORE) | st.just(""),
    st.sampled_from(NAMES) | st.sampled_from(OTHERS),
    st.sampled_from(list(PORTS)) | st.sampled_from(WRONG_PORTS),
    st.sampled_from(AFTER) | st.just(""),
)


def text_of(found: tuple[str, str, str | None, str]) -> str:
    before, name, port, after = found
    return before + name + ("" if port is None else f":{port}") + after


def is_right(found: tuple[str, str, str | None, str]) -> bool:
    before, name, port, after = found
    return not before and name in NAMES and port in PORTS and not after


def status(headers: list[tuple[bytes, bytes]], path: str = "/api/v1/service") -> int:
    """What the guard answers; 200 if it lets a request pass."""
    told: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        told.append(200)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            told.append(message["status"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
    guard = Guard(app, own="0.0.0.0", hosts=("braid.example", "bücher.example"))
    asyncio.run(guard(scope, receive, send))
    (one,) = told
    return one


def header(name: str, text: str) -> tuple[bytes, bytes]:
    return name.encode(), text.encode("latin-1", "replace")


@given(parts)
@example(("", "localhost", "7077", ""))
@example(("evil.example@", "localhost", None, ""))
def test_a_host_passes_if_it_is_one_of_the_service(host: tuple[str, str, str | None, str]) -> None:
    assert status([header("host", text_of(host))]) == (200 if is_right(host) else 421)


@given(
    st.sampled_from(["http", "https", "HTTP", "file", "null", "chrome-extension", "ftp", ""]),
    parts,
    st.sampled_from(list(PORTS)),
)
@example("http", ("", "localhost", "7077", ""), "7077")
@example("https", ("", "braid.example", None, ""), None)
def test_an_origin_passes_if_it_is_the_same_service(
    scheme: str, origin: tuple[str, str, str | None, str], port: str | None
) -> None:
    host = header("host", "localhost" + ("" if port is None else f":{port}"))
    right = scheme in ("http", "https") and is_right(origin) and PORTS[origin[2]] == PORTS[port]
    text = f"{scheme}://{text_of(origin)}"
    assert status([host, header("origin", text)]) == (200 if right else 421)


@given(st.lists(parts.map(text_of), min_size=2, max_size=3))
def test_two_hosts_are_no_host(hosts: list[str]) -> None:
    assert status([header("host", one) for one in hosts]) == 421
    assert status([]) == 421


@given(st.binary(max_size=40))
def test_any_bytes_are_no_host_or_one_that_is_known(text: bytes) -> None:
    known = text.decode("latin-1").lower().rpartition(":")[0] or text.decode("latin-1").lower()
    assert status([(b"host", text)]) == 421 or known in NAMES
    assert status([header("host", "localhost"), (b"origin", text)]) == 421


def test_one_origin_of_several_that_is_wrong_is_enough() -> None:
    host, right = header("host", "localhost"), header("origin", "http://localhost")
    assert status([host, right, right]) == 200
    assert status([host, right, header("origin", "http://evil.example")]) == 421


@pytest.mark.parametrize("path", ["http://evil.example/api/v1/service", "*", "evil.example:443", ""])
def test_requests_for_a_proxy_are_refused(path: str) -> None:
    assert status([header("host", "localhost")], path) == 421


def test_further_names_are_names() -> None:
    assert known_name("Bücher.Example") == "xn--bcher-kva.example"
    assert known_name("FD00::1") == "fd00::1"
    for wrong in ("", "localhost:80", "a b", "a/b", "*.example", "braid.example.", "a@b", "[::1]", "ä" * 80):
        with pytest.raises(ConfigError, match="not the name of a host"):
            known_name(wrong)
