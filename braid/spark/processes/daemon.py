"""The process that Spark forks Python workers from, with everything imported that a worker will need.

A worker that imports for itself takes most of a second to start, and an application starts a dozen of them.
Spark imports nothing before it forks because of libraries that start threads. Of those imported here only
Arrow does: one thread of its allocator, which is made for being forked.
"""

from __future__ import annotations

import importlib
import os
import sys

PRELOADED = (
    "numpy",
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "braid.spark.sources.category",
    "braid.engine.stepper",
    "braid.spark.sources.steps",
    "braid.spark.sinks.table",
    "braid.spark.sinks.blocks",
)


def main() -> None:
    """Fork workers until Spark closes the standard input."""
    check_python()
    for name in PRELOADED:
        importlib.import_module(name)
    from pyspark import daemon

    daemon.manager()


def check_python() -> None:
    """End with a message if this is not the Python that packages were shipped for.

    Nothing of the package can be imported before that is known, so the name of the variable is repeated.
    """
    needed = os.environ.get("BRAID_PYTHON")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if needed is not None and needed != version:
        raise SystemExit(f"BRAID_PYTHON: it is Python {version}, and the driver is Python {needed}")


if __name__ == "__main__":
    main()
