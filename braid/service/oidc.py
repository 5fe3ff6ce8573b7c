"""People whom an OpenID Connect issuer knows: its signed tokens, and what somebody with one may do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, extract_compact

from braid.client.discovery import Issued, read_json
from braid.client.models import IdentifiedBy, Role
from braid.core.errors import BraidError
from braid.service.errors import DeniedError, UnavailableError, UnknownError
from braid.service.identity import Identity
from braid.service.settings import Settings

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Signatures by a key that only the issuer has: with others, whoever checks a token could make one, too."""
LEEWAY = 30
"""Seconds by which clocks may differ."""
_TYPES = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
_LEAST_RSA_BITS = 2048
_LONGEST = 16_384
"""Letters of a token."""
_WORDS = ("scope", "scp")
"""Claims whose texts are words."""

PublicKey = RSAKey | ECKey | OKPKey


@dataclass(frozen=True)
class Access:
    """What people of an issuer may do.

    Parameters
    ----------
    issuer, client
        Who signs tokens, and for whom: the audience that they must be for.
    name, claim
        The claims that say who somebody is, and which groups they are in; `a.b` is a part of another one.
    roles, rows
        What groups may do, and those that may see rows.
    """

    issuer: str
    client: str
    name: str
    claim: str
    roles: Mapping[str, Role]
    rows: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings) -> Access | None:
        """What the settings say; None without an issuer."""
        if settings.oidc_issuer is None or settings.oidc_client is None:
            return None
        return cls(
            settings.oidc_issuer,
            settings.oidc_client,
            settings.oidc_name,
            settings.oidc_claim,
            settings.oidc_roles,
            settings.oidc_rows,
        )

    def identity(self, claims: Mapping[str, Any], source: str) -> Identity:
        """Who claims say that somebody is; `DeniedError` if they may do nothing here."""
        name = claims.get(self.name)
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 200:
            raise UnknownError(f"the token does not say who it is for, as {self.name!r}")
        if self.name == "email" and claims.get("email_verified") is not True:
            raise UnknownError("the issuer has not verified the address in the token")
        groups = groups_of(claims, self.claim)
        roles = [role for group, role in self.roles.items() if group in groups]
        if not roles:
            raise DeniedError(
                f"{name!r} may do nothing here: none of their {self.claim!r} has a role",
                hint="see the setting `oidc_roles`",
            )
        role = max(roles, key=list(Role).index)
        return Identity(name, role, not groups.isdisjoint(self.rows), source, by=IdentifiedBy.ISSUER)


def groups_of(claims: Mapping[str, Any], claim: str) -> set[str]:
    """The texts of a claim, or of a part of another one."""
    found: object = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return set(found.split()) if claim in _WORDS else {found}
    return {one for one in found if isinstance(one, str)} if isinstance(found, list) else set()


class Keys(Protocol):
    """Finds the keys of an issuer."""

    def key(self, number: str | None) -> PublicKey | None:
        """The key with a number, or the only one; None if there is none."""


class Issuer:
    """Knows people by the tokens of an issuer.

    Parameters
    ----------
    access
        What they may do.
    keys
        Of the issuer.
    clock
        In seconds since the epoch.
    """

    def __init__(self, access: Access, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._access = access
        self._keys = keys
        self._clock = clock
        self._registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        self._registry.max_header_length = _LONGEST  # some issuers send certificates along

    def identify(self, token: str, source: str) -> Identity:
        """Who has a token; `UnknownError` if it is not right, or not any more."""
        return self._access.identity(self._claims(token), source)

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            if len(token) > _LONGEST:
                raise ValueError("it is too long")
            header = extract_compact(token.encode(), registry=self._registry).headers()
            kind = header.get("typ", "JWT")
            if not isinstance(kind, str) or kind.lower() not in _TYPES:
                raise ValueError("it is for something else")
            key = self._keys.key(_text(header.get("kid")))
            if key is None:
                raise ValueError("its key is not one of the issuer's")
            if key.alg is not None and key.alg != header["alg"]:
                raise ValueError("its key is for another kind of signature")
            claims = jwt.decode(token, key, registry=self._registry).claims
            jwt.JWTClaimsRegistry(
                now=int(self._clock()),
                leeway=LEEWAY,
                iss={"essential": True, "value": self._access.issuer},
                aud={"essential": True, "value": self._access.client},
                exp={"essential": True},
                sub={"essential": True},
            ).validate(claims)
        except ExpiredTokenError:
            raise UnknownError("the token has expired", hint="braid login") from None
        except (JoseError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise UnknownError(
                f"the token is not valid here: {error}", hint=f"it must be one of {self._access.issuer}"
            ) from None
        return claims


class FetchedKeys:
    """The keys of an issuer, which it may change at any time, and which it tells over HTTP.

    One thread at a time asks it, and others wait for a moment at most: whoever sends tokens with keys that
    nobody knows holds up nobody else, and makes the issuer be asked but twice a minute.

    Parameters
    ----------
    issuer
        Its address.
    clock
        In seconds, from any moment.
    """

    FRESH = 3600.0
    """Seconds after which keys are asked for again, though all are known."""
    PAUSE = 30.0
    """Seconds between two times that it is asked."""
    PATIENCE = 2.0
    """Seconds that a thread waits for another one that asks."""
    WAITING = 4
    """Threads that may wait."""

    def __init__(self, issuer: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._clock = clock
        self._asking = threading.Lock()
        self._waiting = threading.BoundedSemaphore(self.WAITING)
        self._keys: dict[str | None, PublicKey] | None = None
        self._asked: float | None = None
        self._trouble = "it has not been asked yet"

    def key(self, number: str | None) -> PublicKey | None:
        """The key with a number, or the only one; `UnavailableError` if the issuer has never told any."""
        known = self._keys
        age = None if self._asked is None else self._clock() - self._asked
        old = age is None or age > self.FRESH
        unknown = known is None or _pick(known, number) is None
        if (old or unknown) and (age is None or age > self.PAUSE):
            self._ask(self._asked, wait=unknown)
        if self._keys is None:
            raise UnavailableError(
                f"the issuer of tokens does not say its keys: {self._trouble}",
                where=self._issuer,
                hint="try again, or use a token of the service's own",
            )
        return _pick(self._keys, number)

    def _ask(self, asked: float | None, *, wait: bool) -> None:
        if not self._take(wait):
            return
        try:
            if self._asked != asked:
                return  # another thread has, meanwhile
            try:
                issued = Issued.discover(self._issuer)
                self._keys = public_keys(read_json(issued.jwks_uri))
            except BraidError as error:
                self._trouble = error.what
            # After that, so that those who come meanwhile wait.
            self._asked = self._clock()
        finally:
            self._asking.release()

    def _take(self, wait: bool) -> bool:
        if self._asking.acquire(blocking=False):
            return True
        if not wait or not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._asking.acquire(timeout=self.PATIENCE)
        finally:
            self._waiting.release()


def public_keys(told: Mapping[str, Any]) -> dict[str | None, PublicKey]:
    """Keys of signatures by their numbers; those of other kinds, and weak ones, are left out."""
    found: dict[str | None, PublicKey] = {}
    listed = told.get("keys")
    for one in listed if isinstance(listed, list) else []:
        if not isinstance(one, dict) or one.get("use", "sig") != "sig" or one.get("kty") == "oct":
            continue
        try:
            key = JWKRegistry.import_key(one)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        weak = isinstance(key, RSAKey) and key.raw_value.key_size < _LEAST_RSA_BITS
        if isinstance(key, RSAKey | ECKey | OKPKey) and not weak:
            found[_text(one.get("kid"))] = key
    return found


def _pick(keys: Mapping[str | None, PublicKey], number: str | None) -> PublicKey | None:
    if number is None and len(keys) == 1:
        return next(iter(keys.values()))
    return keys.get(number)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError("the number of its key is not a text")
