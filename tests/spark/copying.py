"""Take savepoints of an application while input arrives and it is killed, then let a copy go on from each.

Run as a script: `python -m tests.spark.copying --savepoints 6 --kills 6 --seed 1 [--victim NAME]
[--cluster]`.
Some kills come while a savepoint is taken. What came out before a savepoint, and what its copy gives when it
is drained, must be what DuckDB says about the whole input.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import uuid
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import pyarrow as pa

from braid import api
from braid.home.control import Save
from braid.home.saved import find_saved, saved_names
from tests.spark.killing import LOCAL, VICTIMS, Place, Trial, clustered, kill_group, launch


class CopyTrial(Trial):
    """An application of which savepoints are taken."""

    def save(self, times: int, seconds: float) -> list[float]:
        """Start the application, take savepoints, and stop it; returns how long each took."""
        found = []
        with self.running() as process:
            self.begin(process)
            for number in range(times):
                began = time.monotonic()
                taken = api.savepoint("killed", self.home, name=f"live{number}")
                found.append(time.monotonic() - began)
                print(f"{taken}: {found[-1]:.2f} s", flush=True)
                time.sleep(random.random() * seconds)
        return found

    def kill_saving(self, name: str) -> bool:
        """Kill the application while a savepoint is taken; whether there is one after all."""
        process = launch(self.home, self.program, place=self.place)
        try:
            self.reach(process)
            Save(id=uuid.uuid4().hex, name=name).write(self.home.application("killed").save_file)
            time.sleep(random.random() * 1.5)
        finally:
            kill_group(process)
        return name in saved_names(self.home)

    def copy_differences(self, name: str) -> dict[str, list[object]]:
        """Let a copy go on from a savepoint, and drain it: what differs from DuckDB, per table."""
        path = self.program.with_name(f"copy_{name}.sql")
        text = self.program.read_text().replace(
            "CREATE APPLICATION killed", f"CREATE APPLICATION copy_{name}"
        )
        for category in self.victim.queries:
            text = text.replace(f'"{category}")', f'"{category}_{name}")')
        path.write_text(text)
        process = launch(self.home, path, "--from", name, "--drain", place=self.place)
        try:
            if process.wait(600):
                raise RuntimeError(f"the copy of {name} has failed")
        finally:
            kill_group(process)
        _, saved = find_saved(self.home, name)
        result = {}
        for category, query in self.victim.queries.items():
            last = saved.queries[category].commit
            before = self.up_to(category, -1 if last is None else last)
            after = self.up_to(f"{category}_{name}")
            result[category] = self.differences_of(pa.concat_tables([before, after]), query)
            print(
                f"{name}: {category}: {before.num_rows} rows before, {after.num_rows} of the copy, "
                f"{len(result[category])} differences",
                flush=True,
            )
        return result

    def up_to(self, category: str, last: int | None = None) -> pa.Table:
        """The rows of a category, up to a commit."""
        found = self.home.log().open(category)
        reader = found.reader()
        end = reader.latest() if last is None else last
        batches = [batch for number in range(reader.first, end + 1) for batch in reader.rows(number)]
        return pa.Table.from_batches(batches, found.schema)


def run(savepoints: int, kills: int, seed: int, victim: str, place: Place = LOCAL) -> dict[str, list[object]]:
    """Kill, save, drain, and let copies go on; returns what differs, per savepoint and table."""
    with tempfile.TemporaryDirectory(prefix="braid-copy-") as folder:
        trial = CopyTrial(Path(folder), seed, victim, place)
        for number in range(kills):
            print(f"kill {number + 1}: savepoint {trial.kill_saving(f'killed{number}')}", flush=True)
        seconds = trial.save(savepoints, seconds=5)
        print(f"taken in: median {median(seconds):.2f} s, longest {max(seconds):.2f} s", flush=True)
        trial.drain(3600)
        result = trial.differences()
        for name in saved_names(trial.home):
            found = trial.copy_differences(name)
            result |= {f"{name}.{category}": rows for category, rows in found.items()}
        return result


def main() -> None:
    """Run as a script; the exit code says whether anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--savepoints", type=int, default=6)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--victim", choices=list(VICTIMS), default="chain")
    parser.add_argument("--cluster", action="store_true")
    options = parser.parse_args()
    random.seed(options.seed)
    with clustered() if options.cluster else nullcontext(LOCAL) as place:
        different = run(options.savepoints, options.kills, options.seed, options.victim, place)
    sys.exit(any(different.values()))


if __name__ == "__main__":
    main()
