"""Where the service listens, and whether it may: nobody gets in from another machine without a token."""

from __future__ import annotations

import ipaddress
import socket
import ssl

from braid.core.errors import ConfigError
from braid.service.settings import Settings

_WAITING = 2048
"""Connections that wait."""


def listen(settings: Settings) -> socket.socket:
    """A socket on the address of the settings; whoever connects waits until it is served."""
    check(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        check_address(settings, listening.getsockname()[0])
        # Whoever reads the address finds somebody there, who answers as soon as all is ready.
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            hint="choose another port (--port), or 0 for a free one",
        ) from None
    except ConfigError:
        listening.close()
        raise
    return listening


def check(settings: Settings) -> None:
    """Refuse settings that do not go together, and files of TLS that cannot be used."""
    if settings.auth == "none" and settings.review == "required":
        raise ConfigError(
            "without authentication nobody knows whether an author approves their own version",
            where="auth = 'none', review = 'required'",
            hint="leave auth as 'token'",
        )
    if settings.auth == "none" and settings.hosts:
        raise ConfigError(
            "without authentication the service has no names by which other machines reach it",
            where="auth = 'none', hosts",
            hint="leave auth as 'token', or hosts empty",
        )
    if settings.auth == "none" and settings.oidc_issuer is not None:
        raise ConfigError(
            "without authentication nobody is asked for a token of an issuer",
            where="auth = 'none', oidc_issuer",
            hint="leave auth as 'token', which takes both kinds of tokens",
        )
    certificate, key = settings.tls_certificate, settings.tls_key
    if (certificate is None) != (key is None):
        raise ConfigError(
            "HTTPS takes a certificate and its key",
            where="tls_certificate, tls_key",
            hint="give both, or none",
        )
    if certificate is None or key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the certificate or its key cannot be used: {getattr(error, 'strerror', None) or error}",
            where=f"{certificate}, {key}",
            hint="both are PEM files; the key has no password",
        ) from None


def check_address(settings: Settings, address: str) -> None:
    """Refuse to let everybody in who reaches an address from another machine."""
    if settings.auth == "none" and not ipaddress.ip_address(address).is_loopback:
        raise ConfigError(
            f"anybody who reaches {address} could do anything",
            where="auth = 'none'",
            hint="leave auth as 'token', or listen on 127.0.0.1",
        )


def url_of(settings: Settings, listening: socket.socket) -> str:
    """How clients on this machine reach a socket."""
    address, port = listening.getsockname()[:2]
    host = settings.host
    if ipaddress.ip_address(address).is_unspecified:
        host = "::1" if ":" in address else "127.0.0.1"
    shown = f"[{host}]" if ":" in host else host
    return f"{'http' if settings.tls_certificate is None else 'https'}://{shown}:{port}"


def warning_of(settings: Settings, listening: socket.socket) -> str | None:
    """What whoever starts it should know of who can reach it, if anything."""
    address = listening.getsockname()[0]
    if settings.auth == "none":
        return "anybody on this machine may do anything: auth is 'none'"
    if settings.tls_certificate is None and not ipaddress.ip_address(address).is_loopback:
        return (
            f"tokens and rows go to and from {address} in clear: give tls_certificate and tls_key, "
            "or let a proxy with HTTPS stand before it"
        )
    return None


def _no_password() -> str:
    raise ValueError("the key has a password")
