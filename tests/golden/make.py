"""Makes a golden home with this version: `python -m tests.golden.make v3`, from the inputs of the last one.

To be run once, when a version is released whose formats are others. What is made is never changed after that.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from braid import api
from braid.spark.processes.session import open_session
from tests.golden.layout import GOLDEN, LOCKS, SAVEPOINT, versions

PUBLISHED = 25
"""Records of a commit."""


def make(target: Path, like: Path) -> None:
    """Run the first half of an example, with two generations and a savepoint, and pack the home."""
    target.mkdir()
    for name in ("first", "rest"):
        shutil.copytree(like / name, target / name)
    for name in ("program.sql", "customers.csv", "expected.sql"):
        shutil.copy(like / name, target / name)
    session = open_session(master="local[2]")
    with tempfile.TemporaryDirectory(prefix="braid-golden-") as folder:
        home = Path(folder) / "home"
        api.load_lookup("customers", target / "customers.csv", ("customer",), home)
        for path in sorted((target / "first").glob("*.jsonl")):
            lines = path.read_text(encoding="utf-8").splitlines()
            for start in range(0, len(lines), PUBLISHED):
                api.publish(path.stem, lines[start : start + PUBLISHED], home)
        with api.run(target / "program.sql", home, spark=session) as running:
            running.process_available()
            running.rescale(shards=3, partitions=2)
            running.process_available()
            api.savepoint("shop", home, name=SAVEPOINT)
        with tarfile.open(target / "home.tar.gz", "w:gz") as archive:
            archive.add(home, "home", filter=lambda entry: None if is_left_out(entry.name) else entry)
    session.stop()


def is_left_out(name: str) -> bool:
    """Whether a file is of no use to whoever goes on with the home."""
    last = Path(name).name
    return last in LOCKS or last.startswith("LOG") or last.endswith(".log")


if __name__ == "__main__":
    make(GOLDEN / sys.argv[1], GOLDEN / versions()[-1])
