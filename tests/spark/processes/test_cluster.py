"""Applications on a standalone cluster of this machine, whose executors have a bare Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from braid.home.control import Generation
from braid.home.paths import Home
from tests.spark.oracle import Case, differences, generate, publish, read

pytestmark = pytest.mark.spark

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For four JVMs on one machine that do not live long enough to be compiled well."""
CASE = Case(
    "clustered",
    "l.t AS t, l.k AS k, l.a AS a, r.t AS rt, r.b AS b, l.k2 AS k2",
    on="l.k = r.k",
    shards=3,
)


@dataclass(frozen=True)
class Cluster:
    """A master and a worker, and where the executors' working directories are."""

    master: str
    work: Path
    python: Path
    cache: Path

    def run(self, home: Home, program: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """`braid run --drain` with two executors of one core."""
        settings = {
            "spark.cores.max": "2",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "768m",
            "spark.sql.codegen.wholeStage": "false",
            "spark.executor.extraJavaOptions": QUICK,
            "spark.driver.extraJavaOptions": QUICK,
        }
        command = [
            sys.executable,
            "-m",
            "braid.cli",
            "run",
            str(program),
            "--home",
            str(home.root),
            "--drain",
        ]
        command += ["--master", self.master]
        for name, value in settings.items():
            command += ["--spark", f"{name}={value}"]
        environment = {**clean(), "SPARK_LOCAL_IP": "127.0.0.1", "XDG_CACHE_HOME": str(self.cache)}
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=150,
            env={**environment, **variables},
            check=False,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from braid.spark.processes.java import ensure_java

    folder = tmp_path_factory.mktemp("cluster")
    python = bare_python(folder)
    if python is None:
        pytest.skip(f"there is no {PYTHON} without packages to run executors with")
    ensure_java()
    java = shutil.which("java")
    path = [str(python.parent), "/usr/bin", "/bin", *([str(Path(java).parent)] if java else [])]
    environment = {
        **clean(),
        "PATH": os.pathsep.join(path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
    }
    started: list[subprocess.Popen[str]] = []
    try:
        # Port 0: each takes a free one itself, and says which.
        server = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        started.append(launch("master.Master", *server, environment=environment))
        master = awaited(started[0], "Starting Spark master at ").strip()
        work = folder / "work"
        limits = ("--cores", "2", "--memory", "1g", "--work-dir", str(work))
        started.append(launch("worker.Worker", *server, *limits, master, environment=environment))
        awaited(started[1], "Successfully registered with master")
        yield Cluster(master, work, python, folder / "cache")
    finally:
        for process in reversed(started):
            end(process)


def clean() -> dict[str, str]:
    """This process's environment without what would lead other Pythons to its packages."""
    hidden = (
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "PYSPARK_PYTHON",
        "PYSPARK_DRIVER_PYTHON",
        "SPARK_HOME",
    )
    return {name: value for name, value in os.environ.items() if name not in hidden}


def bare_python(folder: Path) -> Path | None:
    """A Python of this version that has none of the packages that workers need."""
    for place in ("/usr/bin", "/usr/local/bin", f"{sys.base_prefix}/bin"):
        python = Path(place) / PYTHON
        if python.exists() and not any(
            subprocess.run(
                [python, "-c", f"import {name}"], cwd=folder, env=clean(), capture_output=True, timeout=20
            ).returncode
            == 0
            for name in ("numpy", "pyarrow", "pandas", "google.protobuf", "pyspark", "braid")
        ):
            return python
    return None


def launch(what: str, *arguments: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a part of a standalone cluster, in a process group of its own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    return subprocess.Popen(
        [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**environment, "SPARK_HOME": str(home)},
    )


def awaited(process: subprocess.Popen[str], words: str) -> str:
    """What follows some words in a process's log, once it says them; a thread reads the rest."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return line.partition(words)[2]
    raise AssertionError("".join(said))


def end(process: subprocess.Popen[str]) -> None:
    """Stop a process with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def test_executors_without_packages_join_as_duckdb_does(cluster: Cluster, home: Home, tmp_path: Path) -> None:
    streams = generate(11, rows=400)
    publish(home.log(), streams, 2)
    program = tmp_path / "app.sql"
    program.write_text(CASE.pql())
    done = cluster.run(home, program)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "clustered: drained" in done.stdout
    got = read(home, "clustered.out")
    assert got.num_rows >= 300
    assert differences(got, CASE.sql(), streams) == []
    executors = sorted(cluster.work.glob("app-*/[0-9]*"))
    assert len(executors) == 2
    assert all((folder / "braid-packages" / "numpy").is_dir() for folder in executors)
    layout = Generation.read(home.application("clustered").control_file("j", "state"))
    assert layout == Generation(shards=3, partitions=2)


def test_a_python_that_executors_lack_is_named(cluster: Cluster, home: Home, tmp_path: Path) -> None:
    publish(home.log(), generate(12, rows=10), 1)
    program = tmp_path / "app.sql"
    program.write_text(CASE.pql())
    only_here = tmp_path / "python-of-the-driver"
    only_here.symlink_to(sys.executable)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = cluster.run(home, program, PYSPARK_PYTHON=only_here.name, PATH=path)
    assert done.returncode != 0
    assert "executors have no 'python-of-the-driver'" in done.stderr
    assert "set PYSPARK_PYTHON" in done.stderr
