"""Applications on a standalone cluster of this machine, whose executors have a bare Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.home.control import Generation
from braid.home.paths import Home
from tests.spark.cluster import CannotStartError, Cluster, clean, running
from tests.spark.oracle import Case, differences, generate, publish, read

pytestmark = pytest.mark.spark

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
CASE = Case(
    "clustered",
    "l.t AS t, l.k AS k, l.a AS a, r.t AS rt, r.b AS b, l.k2 AS k2",
    on="l.k = r.k",
    shards=3,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    python = bare_python(folder)
    if python is None:
        pytest.skip(f"there is no {PYTHON} without packages to run executors with")
    path = os.pathsep.join([str(python.parent), "/usr/bin", "/bin"])
    try:
        with running(folder, workers=1, cores=2, memory="1g", path=path) as started:
            yield started
    except CannotStartError as error:
        pytest.skip(str(error))


def run(cluster: Cluster, home: Home, program: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`braid run --drain` with two executors of one core."""
    command = [sys.executable, "-m", "braid.cli", "run", str(program), "--home", str(home.root), "--drain"]
    return subprocess.run(
        [*command, *cluster.arguments(spark_cores_max="2")],
        capture_output=True,
        text=True,
        timeout=150,
        env={**cluster.environment(cluster.folder.parent / "cache"), **variables},
        check=False,
    )


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


def test_executors_without_packages_join_as_duckdb_does(cluster: Cluster, home: Home, tmp_path: Path) -> None:
    streams = generate(11, rows=400)
    publish(home.log(), streams, 2)
    program = tmp_path / "app.sql"
    program.write_text(CASE.pql())
    done = run(cluster, home, program)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "clustered: drained" in done.stdout
    got = read(home, "clustered.out")
    assert got.num_rows >= 300
    assert differences(got, CASE.sql(), streams) == []
    executors = sorted(cluster.work.glob("0/app-*/[0-9]*"))
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
    done = run(cluster, home, program, PYSPARK_PYTHON=only_here.name, PATH=path)
    assert done.returncode != 0
    assert "executors have no 'python-of-the-driver'" in done.stderr
    assert "set PYSPARK_PYTHON" in done.stderr
