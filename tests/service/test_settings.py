from __future__ import annotations

from pathlib import Path

import pytest

from braid.client.models import Role
from braid.core.errors import ConfigError
from braid.service.settings import read_settings


def test_flags_come_before_variables_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "some.toml"
    file.write_text('port = 1\nhost = "::1"\nreview = "required"\nhosts = ["braid.example"]')
    assert read_settings(file).port == 1
    monkeypatch.setenv("BRAID_PORT", "2")
    assert read_settings(file).port == 2
    found = read_settings(file, port=3, home=None)
    assert (found.port, found.host, found.review, found.hosts) == (3, "::1", "required", ("braid.example",))


def test_a_file_in_the_working_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_settings().port == 7077
    (tmp_path / "braid.toml").write_text("port = 8000")
    assert read_settings().port == 8000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = 'x'", r"'port' \(file\)"),
        ("prt = 1", r"'prt' \(file\)"),
        ("review = 'maybe'", "'review'"),
        ("port = ", "not TOML"),
    ],
)
def test_what_is_wrong_says_where_it_comes_from(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "some.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_settings(file)
    with pytest.raises(ConfigError, match="cannot read"):
        read_settings(tmp_path / "none.toml")


def test_variables_and_flags_are_named_when_they_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"'port' \(flag\)"):
        read_settings(port=-1)
    monkeypatch.setenv("BRAID_REVIEW", "maybe")
    with pytest.raises(ConfigError, match=r"variable BRAID_REVIEW"):
        read_settings()


def test_an_issuer_takes_whom_tokens_are_for_and_who_may_do_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some.toml"
    whole = 'oidc_issuer = "https://issuer.example"\noidc_client = "braid"\n[oidc_roles]\nstaff = "viewer"'
    file.write_text(whole)
    found = read_settings(file)
    assert (found.oidc_issuer, found.oidc_roles) == ("https://issuer.example", {"staff": Role.VIEWER})
    monkeypatch.setenv("BRAID_OIDC_ROLES", '{"leads": "admin"}')
    assert read_settings(file).oidc_roles == {"leads": Role.ADMIN}
    monkeypatch.delenv("BRAID_OIDC_ROLES")
    for before, after, said in (
        ('oidc_client = "braid"', "", "takes oidc_client and oidc_roles"),
        ("https://", "http://", "not an address with https"),
        ("viewer", "owner", "'oidc_roles.staff'"),
    ):
        file.write_text(whole.replace(before, after))
        with pytest.raises(ConfigError, match=said):
            read_settings(file)


POD = {"kubernetes_namespace": "n", "kubernetes_image": "i", "kubernetes_claim": "c"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"master": "spark://a:7077"}, "set backend = 'standalone'"),
        ({"backend": "standalone"}, "needs master = 'spark://HOST:PORT'"),
        ({"backend": "standalone", "master": "local[2]"}, "needs master = 'spark://HOST:PORT'"),
        ({"backend": "kubernetes", **POD, "master": "yarn"}, "master is"),
        ({"backend": "kubernetes"}, "needs kubernetes_namespace"),
        ({"backend": "kubernetes", **POD, "kubernetes_image": None}, "needs kubernetes_image"),
        (POD, "kubernetes_namespace makes sense with backend = 'kubernetes' only"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(flags: dict[str, str | None], said: str) -> None:
    with pytest.raises(ConfigError, match=f"settings that do not go together: .*{said}"):
        read_settings(**flags)


def test_settings_of_every_backend_go_together() -> None:
    assert read_settings(master="local[3]").backend == "local"
    assert read_settings(backend="standalone", master="spark://a:7077").master == "spark://a:7077"
    assert read_settings(backend="kubernetes", **POD).kubernetes_image == "i"
