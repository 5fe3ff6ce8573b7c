"""Metrics of a running application: one JSON line per micro-batch and stage, and one status file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from braid.home.paths import AppHome, read_json, write_json

Json = dict[str, object]
_TOTALS = (
    "rows_in",
    "rows_out",
    "matches",
    "unmatched_left",
    "unmatched_right",
    "rescued",
    "lost_matches",
    "lost_late_left",
    "lost_late_right",
    "padded_early_left",
    "padded_early_right",
    "matches_after_padding",
    "keys_written",
    "superseded",
    "null_keys",
)


@dataclass
class StageMetrics:
    """Collects what a stage's micro-batches report, from Spark's progress and from its sink.

    Parameters
    ----------
    home, stage
        The application and its stage.
    kind
        `slicer` or `join`.
    what
        The stage in a few words.
    """

    home: AppHome
    stage: str
    kind: str
    what: str = ""
    seen: int = -1
    last: Json = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)

    def take(self, progress: Mapping[str, object]) -> Json | None:
        """Add a micro-batch that Spark reports; None if it is known, or was no micro-batch."""
        batch = progress["batchId"]
        assert isinstance(batch, int)
        counts = self._counts(batch)
        if batch <= self.seen or counts is None:
            return None
        self.seen = batch
        durations = progress["durationMs"]
        line: Json = {
            "stage": self.stage,
            "kind": self.kind,
            "at": progress["timestamp"],
            "duration_ms": dict(durations) if isinstance(durations, Mapping) else {},
            **counts,
        }
        rows = counts.get("rows_in", progress["numInputRows"])
        if self.kind == "join":
            rows = _integer(counts, "rows_left") + _integer(counts, "rows_right")
            line["match_rate"] = _rate(counts)
            line["lag_ms"] = _lags(counts)
        line["rows_in"] = rows
        for name in _TOTALS:
            self.totals[name] = self.totals.get(name, 0) + _integer(line, name)
        self.last = line
        with self.home.metrics_file(self.stage).open("a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
        return line

    def _counts(self, batch: int) -> Json | None:
        path = self.home.metrics_file(self.stage).parent / ".counts" / f"{self.stage}.{batch}.json"
        counts = read_json(path)
        if not isinstance(counts, dict):
            return None
        path.unlink()
        return counts


@dataclass
class Status:
    """What `braid status` shows: written whole, so that a reader never sees half of it."""

    home: AppHome
    state: str = "starting"
    error: str | None = None
    started: float = field(default_factory=time.time)

    def write(self, stages: Mapping[str, StageMetrics]) -> Json:
        """Write the status file, and return what it says."""
        value: Json = {
            "application": self.home.name,
            "state": self.state,
            "error": self.error,
            "pid": os.getpid(),
            "started": self.started,
            "updated": time.time(),
            "stages": {name: self._stage(name, metrics) for name, metrics in stages.items()},
        }
        write_json(self.home.status_file, value)
        return value

    def _stage(self, name: str, metrics: StageMetrics) -> Json:
        value: Json = {
            "kind": metrics.kind,
            "what": metrics.what,
            "totals": metrics.totals,
            "last": metrics.last,
        }
        if metrics.kind == "join":
            value["pacing"] = read_json(self.home.control_file(name, "pacing"))
        return value


def read_metrics(path: Path) -> list[Json]:
    """All lines of a metrics file; a last line that is still being written is left out."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


def _rate(counts: Json) -> float | None:
    """Share of decided left rows that had a match."""
    decided, unmatched = _integer(counts, "decided_left"), _integer(counts, "unmatched_left")
    return None if decided <= 0 else max(0.0, 1 - unmatched / decided)


def _lags(counts: Json) -> Json:
    """How far stream times are behind the wall clock."""
    now = time.time() * 1_000_000
    lags: Json = {}
    for side in ("left", "right"):
        at = counts.get(f"{side}_time")
        lags[side] = round((now - at) / 1000) if isinstance(at, int) and abs(at) < 2**61 else None
    return lags


def _integer(counts: Json, name: str) -> int:
    value = counts.get(name, 0)
    return int(value) if isinstance(value, int | float) else 0
