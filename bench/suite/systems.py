"""The systems: what each runs, in which environment, and what it cannot do."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from suite import environments
from suite.environments import BENCH, Environment, UnavailableError
from suite.process import Program
from suite.spec import Query

PROGRAMS = BENCH / "suite" / "programs"
LOGS = BENCH / "data" / "logs"
WORK = BENCH / "data" / "work"
MEMORY = 6 * 2**30
"""Bytes that the processes of a system may take together."""
HEAP = "4g"
"""Java heap of the peers that keep their state there; Braid runs with its own default."""
FLINK_JVM = [
    f"--add-opens=java.base/java.{part}=ALL-UNNAMED" for part in ("lang", "util", "time", "net", "nio")
]


@dataclass(frozen=True)
class System:
    """A system of the comparison.

    Parameters
    ----------
    name, title
        How it is called on the command line and in the table.
    program
        Its program in `suite/programs`.
    environment
        Sets it up.
    state
        The state store that its program is told to use.
    share
        Part of a workload's rows that it is given; slow systems would take too long with all.
    csv
        Whether it reads the rows as CSV.
    follows
        Whether its program can go on with what comes, and so take part in latency and recovery.
    refuses
        Types of joins that it cannot do, with the reason.
    """

    name: str
    title: str
    program: str
    environment: Callable[[], Environment]
    state: str = ""
    share: float = 1.0
    csv: bool = False
    follows: bool = False
    refuses: Mapping[str, str] = field(default_factory=dict)


_NO_ASOF = {"asof": "has no streaming ASOF join"}
_OTHER_ASOF = {"asof": "only as a join with a versioned table, another operator"}

SYSTEMS = {
    system.name: system
    for system in (
        System("braid", "Braid", "braid_app", environments.own, follows=True),
        System(
            "spark-memory",
            "Spark native, in-memory state",
            "spark_join",
            environments.own,
            "memory",
            share=0.5,
            follows=True,
            refuses=_NO_ASOF,
        ),
        System(
            "spark-rocksdb",
            "Spark native, RocksDB state",
            "spark_join",
            environments.own,
            "rocksdb",
            share=0.25,
            refuses=_NO_ASOF,
        ),
        System("flink-heap", "Flink SQL, heap state", "flink_join", environments.flink, "heap", follows=True),
        System(
            "flink-rocksdb",
            "Flink SQL, RocksDB state",
            "flink_join",
            environments.flink,
            "rocksdb",
            share=0.25,
        ),
        System("pathway", "Pathway", "pathway_join", environments.pathway, csv=True),
        System(
            "kafka-streams",
            "Kafka Streams, RocksDB state",
            "kafka_join",
            environments.kafka,
            "rocksdb",
            share=0.25,
            csv=True,
            refuses=_OTHER_ASOF,
        ),
        System("duckdb", "DuckDB, batch: the limit", "duckdb_join", environments.own),
    )
}
"""All systems by name."""


@dataclass(frozen=True)
class Folders:
    """Where a program reads: both sides, and both sides of the warm-up."""

    left: Path
    right: Path
    warm_left: Path
    warm_right: Path


def set_up(names: list[str], say: Callable[[str], None]) -> dict[str, Environment | str]:
    """The environment of every system, or why it has none."""
    found: dict[str, Environment | str] = {}
    for name in names:
        say(f"set up {name}")
        try:
            found[name] = SYSTEMS[name].environment()
        except UnavailableError as error:
            found[name] = str(error)
    return found


@contextmanager
def launched(
    system: System,
    environment: Environment,
    query: Query,
    folders: Folders,
    *,
    mode: str = "drain",
    period: int = 0,
    options: Mapping[str, object] | None = None,
    work: Path | None = None,
    category: bool = False,
) -> Iterator[Program]:
    """Start a system's program, and kill what is left of it in the end.

    Parameters
    ----------
    system, environment
        What to start.
    query, folders
        The join.
    mode, period
        See `programs/common.py`.
    options
        Options of the application, for Braid.
    work
        A folder to keep; one of its own, removed in the end, by default.
    category
        Whether Braid's folders are names of raw categories.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    folder = work or Path(tempfile.mkdtemp(prefix=f"{system.name}-", dir=WORK))
    folder.mkdir(parents=True, exist_ok=True)
    job = {
        "query": asdict(query),
        **{name: str(path) for name, path in vars(folders).items()},
        "work": str(folder),
        "mode": mode,
        "state": system.state,
        "period": period,
        "heap": HEAP,
        "options": dict(options or {}),
        "category": category,
    }
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    (folder / "tmp").mkdir(exist_ok=True)
    variables = {
        **os.environ,
        "TMPDIR": str(folder / "tmp"),
        "FLINK_ENV_JAVA_OPTS": " ".join([f"-Xmx{HEAP}", *FLINK_JVM]),
        "BENCH_JAVA": environments.java(),
        "BENCH_CLASSPATH": os.pathsep.join(map(str, environment.jars)),
    }
    command = [str(environment.python), str(PROGRAMS / f"{system.program}.py"), str(path)]
    program = Program(command, variables, LOGS / f"{system.name}-{mode}.log", MEMORY).start()
    try:
        yield program
    finally:
        program.kill()
        if work is None:
            shutil.rmtree(folder, ignore_errors=True)
