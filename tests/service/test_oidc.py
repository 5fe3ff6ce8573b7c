"""Tokens of an issuer: those that are right let people in, with what their groups may do; no others do."""

from __future__ import annotations

import hmac
import json
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from braid.client.models import NewToken, Role
from braid.service.errors import UnavailableError, UnknownError
from braid.service.identity import make_token
from braid.service.oidc import Access, FetchedKeys, Issuer, groups_of
from tests.service.conftest import Tried
from tests.service.issuer import TestIssuer, issuing

API = "/api/v1"
ROLES = {"admins": Role.ADMIN, "editors": Role.EDITOR, "people": Role.VIEWER}


@pytest.fixture(scope="module")
def listening() -> Iterator[TestIssuer]:
    with issuing() as found:
        yield found


@pytest.fixture
def issuer(listening: TestIssuer) -> TestIssuer:
    """An issuer with a key of its own, which nobody has asked yet."""
    listening.rotate()
    listening.asked.clear()
    listening.answers.clear()
    listening.paused.set()
    listening.groups = ["editors"]
    return listening


@pytest.fixture
def service(tried: Tried, issuer: TestIssuer) -> Tried:
    """A service that takes tokens of the issuer."""
    access = Access(issuer.url, "braid", "sub", "groups", ROLES, ("auditors",))
    tried.state.issuer = Issuer(access, FetchedKeys(issuer.url))
    return tried


def ask(service: Tried, token: str, path: str = "/whoami") -> Any:
    return service.http.get(API + path, headers={"Authorization": f"Bearer {token}"})


def test_people_of_an_issuer_are_let_in_as_what_their_groups_may_do(
    service: Tried, issuer: TestIssuer
) -> None:
    told = ask(service, issuer.token(groups=["people", "editors", "auditors"])).json()
    assert (told["name"], told["by"], told["role"], told["rows"]) == ("ann", "issuer", "editor", True)
    told = ask(service, issuer.token(sub="bob", groups=["admins"])).json()
    assert (told["name"], told["role"], told["rows"]) == ("bob", "admin", False)
    assert ask(service, issuer.token(aud=["other", "braid"])).status_code == 200
    assert ask(service, issuer.token(header={"typ": "at+jwt"})).status_code == 200
    assert ask(service, issuer.token(), "/tokens").status_code == 403
    for groups in ([], ["strangers"], None, "x", 1, [1], {"editors": 1}):
        answer = ask(service, issuer.token(groups=groups))
        assert answer.status_code == 403, groups
        assert "oidc_roles" in answer.json()["hint"]
    service.http.get(f"{API}/service")
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def test_what_they_change_is_in_the_audit(service: Tried, issuer: TestIssuer) -> None:
    admin = {"Authorization": f"Bearer {issuer.token(groups=['admins'])}"}
    assert service.http.post(f"{API}/tokens", json={"name": "bob"}, headers=admin).status_code == 201
    assert [one["who"] for one in service.http.get(f"{API}/audit").json()] == ["ann"]


def tampered(token: str, part: int, **changes: Any) -> str:
    parts = token.split(".")
    found = json.loads(urlsafe_b64decode(parts[part] + "=="))
    parts[part] = encoded(json.dumps(found | changes).encode())
    return ".".join(parts)


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def signed_with_a_secret(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """What joserfc would not sign with a public key."""
    text = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def test_no_other_tokens_let_anybody_in(service: Tried, issuer: TestIssuer) -> None:
    key, now = issuer.keys[0], int(time.time())
    assert isinstance(key, RSAKey)
    right = issuer.token()
    header, payload, signature = right.split(".")
    public = key.as_pem(private=False)
    kid = {"kid": key.kid}
    claims = {"iss": issuer.url, "aud": "braid", "sub": "ann", "exp": now + 300, "groups": ["admins"]}
    confused = [
        signed_with_a_secret({"alg": "HS256", **kid}, claims, secret)
        for secret in (public, public.strip(), json.dumps(key.as_dict(private=False)).encode(), b"", b"braid")
    ]
    none = tampered(right, 0, alg="none").rsplit(".", 1)[0] + "."
    other = RSAKey.generate_key(2048, {"kid": key.kid})
    unknown = ECKey.generate_key("P-256", {"kid": "unknown"})
    wrong = {
        "none": none,
        "none, upper": tampered(right, 0, alg="NONE"),
        "no signature": f"{header}.{payload}.",
        "another signature": f"{header}.{payload}.{signature[:-4]}AAAA",
        "changed claims": tampered(right, 1, groups=["admins"]),
        "changed header": tampered(right, 0, alg="RS512"),
        "another key of this number": issuer.token(other),
        "an unknown key": issuer.token(unknown),
        "its own key in the header": issuer.token(other, {"jwk": other.as_dict(private=False), "kid": "own"}),
        "a key elsewhere": issuer.token(other, {"jku": f"{issuer.url}/keys"}),
        "something critical": tampered(right, 0, crit=["x"], x=1),
        "for a logout": issuer.token(header={"typ": "logout+jwt"}),
        "another audience": issuer.token(aud="other"),
        "another audience, alike": issuer.token(aud="braid2"),
        "no audience": issuer.token(aud=None),
        "an odd audience": issuer.token(aud={"braid": 1}),
        "another issuer": issuer.token(iss="https://evil.example"),
        "another issuer, alike": issuer.token(iss=f"{issuer.url}/"),
        "no issuer": issuer.token(iss=None),
        "expired": issuer.token(exp=now - 31),
        "no end": issuer.token(exp=None),
        "an odd end": issuer.token(exp=str(now + 300)),
        "no number as its end": issuer.token(exp=float("nan")),
        "not yet": issuer.token(nbf=now + 90),
        "of the future": issuer.token(iat=now + 90),
        "nobody": issuer.token(sub=None),
        "an odd name": issuer.token(sub="ann\x1b[2J"),
        "a long name": issuer.token(sub="a" * 201),
        "too long": issuer.token(x="a" * 20_000),
        "five parts": f"{right}.a.b",
        "no parts": "a.b.c",
        "empty parts": "..",
        **{f"confusion {number}": token for number, token in enumerate(confused)},
    }
    for why, token in wrong.items():
        answer = ask(service, token)
        assert answer.status_code == 401, (why, answer.text)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert token not in answer.text
    assert ask(service, issuer.token(exp=now - 5)).status_code == 200  # clocks differ a little
    assert ask(service, right).status_code == 200
    assert len(issuer.asked) == 2  # keys that nobody knows do not make it be asked again and again


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.integers(0, 2), st.integers(0, 2000), st.characters(codec="ascii"))
def test_tokens_that_are_not_as_they_were_signed(
    service: Tried, issuer: TestIssuer, part: int, place: int, letter: str
) -> None:
    parts = issuer.token().split(".")
    text = parts[part]
    at = place % (len(text) - 1)  # the last letter has bits that mean nothing
    if text[at] == letter:
        return
    parts[part] = text[:at] + letter + text[at + 1 :]
    assert service.state.issuer is not None
    with pytest.raises(UnknownError):
        service.state.issuer.identify(".".join(parts), "here")


@pytest.mark.filterwarnings("ignore:Key size should be")
def test_keys_of_all_kinds(service: Tried, issuer: TestIssuer) -> None:
    weak = RSAKey.generate_key(1024, {"kid": "weak"})
    curve = ECKey.generate_key("P-384", {"kid": "curve"})
    edwards = OKPKey.generate_key("Ed25519", {"kid": "edwards"})
    bound = RSAKey.generate_key(2048, {"kid": "bound", "alg": "PS256"})
    encrypts = RSAKey.generate_key(2048, {"kid": "encrypts", "use": "enc"})
    secret = OctKey.generate_key(256, {"kid": "secret"})
    issuer.keys = [weak, curve, edwards, bound, encrypts, secret, issuer.keys[0]]  # type: ignore[list-item]

    def status(key: Any, algorithm: str) -> int:
        claims = {
            "iss": issuer.url,
            "aud": "braid",
            "sub": "ann",
            "exp": int(time.time()) + 60,
            "groups": ["people"],
        }
        return ask(
            service, jwt.encode({"alg": algorithm, "kid": key.kid}, claims, key, [algorithm])
        ).status_code

    assert status(curve, "ES384") == 200
    assert status(edwards, "Ed25519") == 200
    assert status(bound, "PS256") == 200
    unbound = RSAKey.import_key({**bound.as_dict(private=True), "alg": "RS256"})
    assert status(unbound, "RS256") == 401
    assert status(RSAKey.import_key({**encrypts.as_dict(private=True), "use": "sig"}), "RS256") == 401
    assert status(secret, "HS256") == 401
    assert status(weak, "RS256") == 401


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_keys_change_and_the_issuer_is_asked_but_now_and_then(issuer: TestIssuer) -> None:
    clock = Clock()
    keys = FetchedKeys(issuer.url, clock)
    first = issuer.keys[0].kid
    assert keys.key(first) is not None
    assert keys.key(None) is not None  # there is but one
    second = issuer.rotate(ECKey).kid
    assert keys.key(second) is None  # it was asked a moment ago
    clock.now += FetchedKeys.PAUSE + 1
    assert keys.key(second) is not None
    assert keys.key(first) is None
    asked = len(issuer.asked)
    for _ in range(100):
        assert keys.key("nobody's") is None
    assert len(issuer.asked) == asked == 4
    # Keys that are known are asked for again, too: the issuer may have taken them back.
    issuer.rotate()
    clock.now += FetchedKeys.FRESH + 1
    assert keys.key(second) is None


def test_an_issuer_that_is_away_is_no_trouble_to_those_it_knows(service: Tried, issuer: TestIssuer) -> None:
    clock = Clock()
    keys = FetchedKeys(issuer.url, clock)
    number = issuer.keys[0].kid
    for answer in ((500, b"{}"), (200, b"nonsense"), (200, b"[1]"), (200, b"{}"), (200, b"[" * 100_000)):
        issuer.answers["/.well-known/openid-configuration"] = answer
        with pytest.raises(UnavailableError, match="does not say its keys"):
            keys.key(number)
        clock.now += FetchedKeys.PAUSE + 1
    other = json.dumps(issuer.metadata() | {"issuer": "https://evil.example"}).encode()
    issuer.answers["/.well-known/openid-configuration"] = (200, other)
    with pytest.raises(UnavailableError, match="another issuer"):
        keys.key(number)
    clock.now += FetchedKeys.PAUSE + 1
    elsewhere = json.dumps(issuer.metadata() | {"jwks_uri": "http://evil.example/keys"}).encode()
    issuer.answers["/.well-known/openid-configuration"] = (200, elsewhere)
    with pytest.raises(UnavailableError, match="not an address with https"):
        keys.key(number)
    clock.now += FetchedKeys.PAUSE + 1
    issuer.answers.clear()
    assert keys.key(number) is not None
    # From now on it is away, and what was known stays known.
    issuer.answers["/keys"] = (503, b"")
    clock.now += FetchedKeys.FRESH * 10
    assert keys.key(number) is not None


def test_an_issuer_that_hangs_holds_up_one_request(issuer: TestIssuer) -> None:
    keys = FetchedKeys(issuer.url)
    issuer.paused.clear()
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(keys.key, "a")
        while not issuer.asked:
            threading.Event().wait(0.01)
        others = [pool.submit(keys.key, "a") for _ in range(19)]
        refused = 0
        for other in others:
            with pytest.raises(UnavailableError):
                other.result(30)
            refused += 1
        issuer.paused.set()
        assert first.result(30) is None
    assert refused == 19
    assert len(issuer.asked) == 2


def test_tokens_of_the_service_do_not_need_the_issuer(service: Tried, issuer: TestIssuer) -> None:
    issuer.answers["/.well-known/openid-configuration"] = (500, b"")
    assert ask(service, issuer.token()).status_code == 503
    with service.state.database.transaction() as session:
        made = make_token(session, NewToken(name="bob"), time.time())
    assert ask(service, str(made.secret)).status_code == 200
    assert issuer.asked == ["/.well-known/openid-configuration"]


def test_claims_of_groups() -> None:
    for claims, claim, found in (
        ({"groups": ["a", "b", 1]}, "groups", {"a", "b"}),
        ({"groups": "a b"}, "groups", {"a b"}),
        ({"scope": "a b"}, "scope", {"a", "b"}),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", {"a"}),
        ({"https://braid.example/roles": ["a"]}, "https://braid.example/roles", {"a"}),
        ({"realm_access": ["roles"]}, "realm_access.roles", set()),
        ({"groups": {"a": 1}}, "groups", set()),
        ({}, "groups", set()),
    ):
        assert groups_of(claims, claim) == found


def test_an_address_names_somebody_if_the_issuer_has_verified_it() -> None:
    access = Access("https://issuer.example", "braid", "email", "groups", ROLES, ())
    claims = {"email": "ann@braid.example", "groups": ["people"]}
    assert access.identity({**claims, "email_verified": True}, "here").name == "ann@braid.example"
    for verified in ({}, {"email_verified": False}, {"email_verified": "true"}):
        with pytest.raises(UnknownError, match="not verified"):
            access.identity({**claims, **verified}, "here")
