"""Results as JSON and as one Markdown table."""

from __future__ import annotations

import json
import platform
import statistics
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from suite.environments import FLINK, KAFKA, PATHWAY
from suite.systems import SYSTEMS
from suite.workloads import WORKLOADS

Record = dict[str, object]


@dataclass
class Results:
    """Everything that was measured; written after every run, so that nothing is lost when one fails.

    Parameters
    ----------
    folder
        Where `results.json` and `table.md` are.
    """

    folder: Path
    about: Record = field(default_factory=dict)
    throughput: list[Record] = field(default_factory=list)
    latency: list[Record] = field(default_factory=list)
    recovery: list[Record] = field(default_factory=list)
    growth: list[Record] = field(default_factory=list)

    PARTS = ("throughput", "latency", "recovery", "growth")

    def load(self) -> None:
        """Take in what an earlier run has written."""
        path = self.folder / "results.json"
        if path.exists():
            stored = json.loads(path.read_text())
            self.about = stored["about"]
            for part in self.PARTS:
                setattr(self, part, stored[part])

    def drop(self, part: str, systems: list[str], workloads: list[str]) -> None:
        """Forget what is about to be measured again."""
        records: list[Record] = getattr(self, part)
        kept = [
            record
            for record in records
            if record["system"] not in systems or record.get("workload", workloads[0]) not in workloads
        ]
        setattr(self, part, kept)

    def save(self) -> None:
        """Write both files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        values = {"about": self.about, **{part: getattr(self, part) for part in self.PARTS}}
        (self.folder / "results.json").write_text(json.dumps(values, indent=1) + "\n")
        (self.folder / "table.md").write_text(table(self))


@dataclass(frozen=True)
class Line:
    """The runs of one system on one workload."""

    workload: str
    system: str
    runs: list[Record]

    @property
    def error(self) -> str | None:
        """Why there is nothing to show."""
        return next((str(run["error"]) for run in self.runs if "error" in run), None)

    @property
    def good(self) -> list[Record]:
        """Runs that ended."""
        return [run for run in self.runs if "error" not in run]

    def numbers(self, name: str) -> list[float]:
        """A measure of all runs that ended."""
        return [float(str(run[name])) for run in self.good]

    def median(self, name: str) -> float:
        """Its median."""
        return statistics.median(self.numbers(name))

    @property
    def right(self) -> bool:
        """Whether every run gave an acceptable answer."""
        return bool(self.good) and all(run["acceptable"] for run in self.good)


def lines(records: list[Record]) -> list[Line]:
    """Runs by workload and system, in the order of the lists."""
    found = []
    for workload in WORKLOADS:
        for system in SYSTEMS:
            runs = [r for r in records if r["workload"] == workload and r["system"] == system]
            if runs:
                found.append(Line(workload, system, runs))
    return found


def median_rates(records: list[Record], workload: str = "uniform") -> dict[str, float]:
    """The throughput of every system that gave a right answer."""
    chosen = [line for line in lines(records) if line.workload == workload and line.right]
    return {line.system: line.median("rows_per_second") for line in chosen}


def about() -> Record:
    """The machine and the versions."""
    packages = {}
    for name in ("pyspark", "pyarrow", "numpy", "duckdb"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "none"
    models = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "processor": (models or [platform.processor() or "unknown"])[0],
        "cores_used": 2,
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        "versions": {**packages, "apache-flink": FLINK, "pathway": PATHWAY, "kafka-streams": KAFKA},
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


COLUMNS = (
    "workload",
    "system",
    "rows/s, both sides (spread)",
    "CPU s per M rows",
    "peak memory MB (RSS)",
    "state + checkpoint MB",
    "log MB",
    "rows held",
    "matches missing",
    "rows",
    "runs",
)
LIVE_COLUMNS = ("system", "rows/s offered", "latency p50 s", "p99 s", "kept up", "recovery s")


def _head(columns: tuple[str, ...]) -> str:
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"


def table(results: Results) -> str:
    """All measures in one table, then latency and recovery."""
    text = _head(COLUMNS) + "".join(_row(line) for line in lines(results.throughput))
    latencies = {str(record["system"]): record for record in results.latency}
    recoveries = {str(record["system"]): record for record in results.recovery}
    names = [name for name in SYSTEMS if name in latencies or name in recoveries]
    if names:
        text += "\n" + _head(LIVE_COLUMNS)
    for name in names:
        late, back = latencies.get(name, {}), recoveries.get(name, {})
        cells = [SYSTEMS[name].title, f"{late['rate']:,}" if late else "", *_latency(late)]
        cells.append(str(back.get("seconds", back.get("error", ""))))
        text += f"| {' | '.join(cells)} |\n"
    return text + _lag_table(results.growth)


def held_rows(records: list[Record], system: str) -> dict[float, int]:
    """Most rows that a system held, by how far one side was behind."""
    shown = [r for r in records if r["experiment"] == "lag" and r["system"] == system and "error" not in r]
    found = {float(str(r["value"])): int(r["details"]["state_rows"]) for r in shown}  # type: ignore[index]
    return dict(sorted(found.items()))


def _lag_table(records: list[Record]) -> str:
    held = {name: rows for name in SYSTEMS if (rows := held_rows(records, name))}
    if not held:
        return ""
    columns = ("right side behind, minutes", *(f"{SYSTEMS[name].title}: rows held" for name in held))
    behind = sorted({minutes for rows in held.values() for minutes in rows})
    lines = [
        [f"{at:.0f}", *(f"{rows[at]:,}" if at in rows else "" for rows in held.values())] for at in behind
    ]
    return "\n" + _head(columns) + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _latency(record: Record) -> list[str]:
    if "error" in record:
        return [str(record["error"]), "", ""]
    shown = {True: "yes", False: "no"}.get(bool(record.get("kept_up")), "") if record else ""
    return [str(record.get("p50", "")), str(record.get("p99", "")), shown]


def _row(line: Line) -> str:
    title = SYSTEMS[line.system].title
    if line.error is not None:
        return f"| {line.workload} | {title} | {line.error} |{' |' * (len(COLUMNS) - 3)}\n"
    speeds = line.numbers("rows_per_second")
    spread = f" ({min(speeds):,.0f}-{max(speeds):,.0f})" if len(speeds) > 1 else ""
    streaming = line.system != "duckdb"
    held = [run["details"].get("state_rows") for run in line.good]  # type: ignore[attr-defined]
    cells = [
        line.workload,
        title,
        f"{line.median('rows_per_second'):,.0f}{spread}" if line.right else "wrong answer, no speed",
        f"{line.median('cpu_seconds_per_million'):.1f}",
        f"{line.median('peak_pss') / 2**20:,.0f} ({line.median('peak_rss') / 2**20:,.0f})",
        _megabytes(line.median("state_bytes")) if streaming else "",
        _megabytes(line.median("log_bytes")) if line.median("log_bytes") else "",
        f"{max(held):,}" if all(value is not None for value in held) else "",
        _missing(line),
        f"{line.median('rows'):,.0f}",
        str(len(line.good)),
    ]
    return f"| {' | '.join(cells)} |\n"


def _missing(line: Line) -> str:
    worst = max(line.good, key=lambda run: int(str(run["missing"])))
    missing, whole = int(str(worst["missing"])), int(str(worst["expected"]["matches"]))  # type: ignore[index]
    if missing:
        return f"{missing:,} ({missing / whole:.3%})"
    return "0" if all(run["verdict"] == "exact" for run in line.good) else str(worst["verdict"])


def _megabytes(size: float) -> str:
    return f"{size / 2**20:,.1f}"
