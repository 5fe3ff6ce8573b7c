"""What a service costs that has nothing to do: CPU time of its supervision, and of the list of applications.

Drivers are processes that sleep; each says every five seconds that it is alive, as drivers do. Turns are
taken one after the other, and the CPU time of the thread that takes them is measured.
Run: `python bench/service.py [--applications N] [--turns N] [--json]`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from braid.client.models import Desired, VersionState
from braid.core.logging import log_to_file
from braid.core.processes import began
from braid.home.paths import Home
from braid.home.service import Driver, DriverState, Job, ServiceHome
from braid.service.applications import application_infos
from braid.service.backends.local import LocalProcesses
from braid.service.loops.supervise import TURN_SECONDS, Supervise
from braid.service.main import open_state
from braid.service.registry.tables import Application, Version
from braid.service.settings import Settings
from braid.service.state import ServiceState
from braid.service.telling import BEAT_SECONDS

PLAN_BYTES = 50_000
"""Of the plan of a program with some joins."""


class Sleeping(LocalProcesses):
    """Starts processes that sleep, and says for them what a driver says."""

    def __init__(self, home: ServiceHome) -> None:
        super().__init__(home)
        self.processes: list[subprocess.Popen[bytes]] = []
        self._drivers: dict[str, Driver] = {}

    def start(self, application: str, job: Job) -> None:
        """Start one."""
        process = subprocess.Popen(["sleep", "100000"])
        self.processes.append(process)
        self._drivers[application] = Driver(
            job=job.id,
            version=job.version,
            pid=process.pid,
            began=began(process.pid) or "",
            started=time.time(),
            beat=time.time(),
            state=DriverState.RUNNING,
        )
        self._say(application)

    def close(self) -> None:
        """End all."""
        for process in self.processes:
            process.kill()
            process.wait()

    def beat(self, share: slice) -> None:
        """Let some drivers say that they are alive."""
        for name in list(self._drivers)[share]:
            self._say(name)

    def _say(self, name: str) -> None:
        said = self._drivers[name].model_copy(update={"beat": time.time()})
        said.write(self._home.driver(name).driver_file, durable=False)


def register(state: ServiceState, count: int) -> None:
    """Have applications that should run."""
    with state.database.transaction() as session:
        for number in range(count):
            name = f"app{number}"
            session.add(
                Application(
                    name=name, desired=Desired.RUNNING, version=1, owner="bench", created=0.0, restart=1
                )
            )
            session.flush()
            session.add(
                Version(
                    application=name,
                    number=1,
                    program="",
                    options={},
                    resources={},
                    plan={"stages": ["x" * PLAN_BYTES]},
                    hash="",
                    author="bench",
                    created=0.0,
                    verdict=None,
                    changes=[],
                    replay=False,
                    discard=False,
                    create=False,
                    state=VersionState.ACCEPTED,
                    approved_by=None,
                )
            )


def measure(state: ServiceState, drivers: Sleeping, turns: int) -> dict[str, float]:
    """Milliseconds of CPU of a turn, and of a look at all applications."""
    turning = looking = 0.0
    beats = round(BEAT_SECONDS / TURN_SECONDS)
    for turn in range(turns):
        drivers.beat(slice(turn % beats, None, beats))
        start = time.thread_time()
        state.supervise.turn()
        turning += time.thread_time() - start
        start = time.thread_time()
        with state.database.reading() as session:
            application_infos(session, state, time.time())
        looking += time.thread_time() - start
    return {
        "turn_ms": round(1000 * turning / turns, 2),
        "share_of_a_core": round(turning / turns / TURN_SECONDS, 4),
        "list_ms": round(1000 * looking / turns, 2),
    }


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--applications", type=int, default=200)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        settings = Settings(home=Path(root))
        folder = ServiceHome(Home.at(settings.home))
        folder.make()
        drivers = Sleeping(folder)
        with log_to_file(Path(root) / "service.log", "service") as log:
            state = open_state(settings, log)
            state.supervise = Supervise(state.database, folder, drivers, log)
            try:
                register(state, options.applications)
                state.supervise.turn()
                found = {"applications": options.applications, **measure(state, drivers, options.turns)}
            finally:
                drivers.close()
                state.database.close()
    if options.json:
        print(json.dumps(found))
        return
    print(f"{options.applications} applications, with nothing to do:")
    print(f"a turn of supervision: {found['turn_ms']} ms of CPU, {found['share_of_a_core']:.1%} of a core")
    print(f"the list of applications: {found['list_ms']} ms of CPU")


if __name__ == "__main__":
    main()
