from __future__ import annotations

from pathlib import Path

import pytest

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
