"""Events of a run go to its file as JSON, and to the terminal as lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.core.errors import ConfigError
from braid.core.logging import VARIABLE, log_to_file, log_to_terminal


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    logger = logging.getLogger("braid")
    before = logger.handlers, logger.propagate
    yield
    logger.handlers, logger.propagate = before


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_file_has_what_happened_as_json(tmp_path: Path) -> None:
    path = tmp_path / "braid.log"
    for number in range(2):
        with log_to_file(path, "app") as log:
            log.debug("not shown")
            log.info("started", number=number, where=Path("x"))
    log.info("after the end")
    found = lines(path)
    assert [value.pop("timestamp", "")[-1:] for value in found] == ["Z", "Z"]
    expected = {"event": "started", "level": "info", "application": "app", "where": "x"}
    assert found == [{**expected, "number": 0}, {**expected, "number": 1}]


def test_applications_of_one_process_have_files_of_their_own(tmp_path: Path) -> None:
    with log_to_file(tmp_path / "a", "a") as one, log_to_file(tmp_path / "b", "b") as other:
        one.info("x")
        other.bind(stage="s").warning("y")
    assert [value["event"] for value in lines(tmp_path / "a")] == ["x"]
    assert [(value["event"], value["stage"]) for value in lines(tmp_path / "b")] == [("y", "s")]


def test_a_terminal_shows_what_needs_attention(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for level, expected in (
        ("", "braid warning: restarted (application=app, tries=2)\n"),
        (
            "INFO",
            "braid info: started (application=app)\nbraid warning: restarted (application=app, tries=2)\n",
        ),
        ("error", ""),
    ):
        monkeypatch.setenv(VARIABLE, level) if level else monkeypatch.delenv(VARIABLE, raising=False)
        log_to_terminal()
        with log_to_file(tmp_path / "log", "app") as log:
            log.info("started")
            log.warning("restarted", tries=2)
            log.error("failed", raised=True)
        assert capsys.readouterr().err == expected
    assert lines(tmp_path / "log")[2] | {"timestamp": ""} == {
        "event": "failed",
        "level": "error",
        "application": "app",
        "timestamp": "",
    }


def test_levels_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "loud")
    with pytest.raises(ConfigError, match="'loud'"):
        log_to_terminal()
