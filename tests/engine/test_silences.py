"""Warnings of silent inputs."""

from __future__ import annotations

import json
from pathlib import Path

from braid.core.logging import log_to_file
from braid.engine.silences import Silences
from braid.home.pacing import Pacing
from braid.home.status import StageStatus


def stage(silent: str | None, since: float | None) -> dict[str, StageStatus]:
    pacing = Pacing(inputs={"left": "paused", "right": "idle"}, silent=silent, silent_since=since)
    return {"j": StageStatus(kind="join", pacing=pacing), "s": StageStatus(kind="slicer")}


def test_each_silence_is_told_once(tmp_path: Path) -> None:
    with log_to_file(tmp_path / "log", "app") as log:
        silences = Silences(log)
        for silent, since in ((None, None), ("right", 5.0), ("right", 5.0), (None, None), ("right", 70.0)):
            silences.tell(stage(silent, since))
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(line["level"], line["stage"], line["input"], line["since"]) for line in lines] == [
        ("warning", "j", "right", "1970-01-01T00:00:05Z"),
        ("warning", "j", "right", "1970-01-01T00:01:10Z"),
    ]
