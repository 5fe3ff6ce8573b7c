"""Who can reach the service: addresses, authentication and HTTPS that go together, and those that do not."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from braid.core.errors import ConfigError
from braid.service.listening import check_address, listen, url_of, warning_of
from braid.service.settings import Settings, read_settings


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as found:
            found.bind(("::1", 0))
    except OSError:
        return False
    return True


HAS_IPV6 = _has_ipv6()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for another name than that of this machine, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", "/CN=braid.example", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key


def listening(**given: Any) -> tuple[Settings, socket.socket]:
    if ":" in given.get("host", "") and not HAS_IPV6:
        pytest.skip("this machine has no IPv6")
    settings = Settings(port=0, **given)
    return settings, listen(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_on_loopback_nothing_needs_to_be_asked(host: str) -> None:
    settings, found = listening(host=host, auth="none")
    with found:
        assert warning_of(settings, found) == "anybody on this machine may do anything: auth is 'none'"
    settings, found = listening(host=host)
    with found:
        assert warning_of(settings, found) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", socket.gethostbyname(socket.gethostname())])
def test_another_address_takes_authentication(host: str) -> None:
    if host.startswith("127."):
        host = "0.0.0.0"
    with pytest.raises(ConfigError, match="could do anything"):
        listening(host=host, auth="none")
    settings, found = listening(host=host)
    with found:
        assert "in clear" in str(warning_of(settings, found))


@pytest.mark.parametrize("address", ["10.0.0.1", "8.8.8.8", "fe80::1", "::ffff:10.0.0.1", "0.0.0.0"])
def test_addresses_that_others_reach(address: str) -> None:
    with pytest.raises(ConfigError, match="could do anything"):
        check_address(Settings(auth="none"), address)
    check_address(Settings(), address)


@pytest.mark.parametrize(
    ("host", "shown"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("localhost", "localhost")],
)
def test_clients_of_this_machine_are_told_an_address_that_they_can_reach(host: str, shown: str) -> None:
    settings, found = listening(host=host)
    with found:
        assert url_of(settings, found) == f"http://{shown}:{found.getsockname()[1]}"


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ConfigError, match="approves their own version"):
        listening(auth="none", review="required")
    with pytest.raises(ConfigError, match="names by which other machines"):
        listening(auth="none", hosts=("braid.example",))
    issuer = {"oidc_issuer": "https://a.example", "oidc_client": "braid", "oidc_roles": {"a": "viewer"}}
    with pytest.raises(ConfigError, match="nobody is asked for a token"):
        listening(auth="none", **issuer)


def test_https_takes_a_certificate_and_its_key(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    pem, key = certificate
    settings, found = listening(host="0.0.0.0", tls_certificate=pem, tls_key=key)
    with found:
        assert warning_of(settings, found) is None
        assert url_of(settings, found).startswith("https://127.0.0.1:")
    with pytest.raises(ConfigError, match="a certificate and its key"):
        listening(tls_certificate=pem)
    locked = tmp_path / "locked.pem"
    command = ["openssl", "ec", "-in", str(key), "-out", str(locked), "-aes256", "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    for wrong in (pem, tmp_path / "none.pem", locked):
        with pytest.raises(ConfigError, match="cannot be used"):
            listening(tls_certificate=pem, tls_key=wrong)


def test_a_password_is_no_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("postgresql://ann:secret@db/braid", "postgresql://db/braid?user=ann&password=secret"):
        with pytest.raises(ConfigError, match="can be read by everybody") as found:
            read_settings(registry=url)
        assert "secret" not in str(found.value)
        monkeypatch.setenv("BRAID_REGISTRY", url)
        assert read_settings().registry == url
        monkeypatch.delenv("BRAID_REGISTRY")
    assert read_settings(registry="postgresql://ann@db/braid").registry
