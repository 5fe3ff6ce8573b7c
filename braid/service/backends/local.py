"""Drivers as processes of this machine: each leads a session, and goes on when the service ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import psutil

from braid.core.processes import began, is_left
from braid.home.service import Driver, Job, PoolProcess, ServiceHome
from braid.service.decide.backoff import LIMITS

_OUTPUT_BYTES = 1 << 20
"""Output of a driver beyond which a new file is begun."""
_SECRET = ("BRAID_REGISTRY", "BRAID_TOKEN")
"""Variables that are none of a driver's business."""
_IDLE_SECONDS = 60.0
"""How long a pool stays that nobody needs: an application that comes meanwhile starts at once."""


class LocalProcesses:
    """Starts drivers on this machine.

    Parameters
    ----------
    home
        The service's folder.
    """

    def __init__(self, home: ServiceHome) -> None:
        self._home = home
        self._children: list[subprocess.Popen[bytes]] = []
        self._pools: dict[str, subprocess.Popen[bytes]] = {}
        self._idle: dict[str, float] = {}
        """Pools that nobody needs, and since when."""

    def start(self, application: str, job: Job) -> None:
        """Start a driver in a session of its own; that of a pool takes the job by itself."""
        if job.resources.pool is None:
            self._start("driver", application, self._home.driver(application).output_file)

    def waits_for(self, application: str, job: Job) -> str | None:
        """Nothing: processes of this machine are there at once."""
        return None

    def is_alive(self, driver: Driver) -> bool:
        """Whether a process with this number and this beginning is there."""
        if driver.place is not None:
            # It was started in a pod, of which this machine knows only what it says.
            return time.time() - driver.beat < LIMITS.dead
        return self._is_there(driver.pid, driver.began)

    def stop(self, application: str, job: Job, driver: Driver) -> None:
        """Send SIGTERM to the driver; what it has started ends with it. A pool is told of the job."""
        if job.resources.pool is not None:
            self._home.driver(application).stop_file.write_text(job.id)
        elif self.is_alive(driver):
            _signal(driver.pid, signal.SIGTERM)

    def kill(self, application: str, job: Job, driver: Driver) -> None:
        """Send SIGKILL to all processes of its session; of a pool, they are those of all its applications."""
        end_session(driver.pid, driver.began)

    def clear(self, application: str, job: Job, driver: Driver | None) -> None:
        """The same, unless the driver is that of a pool, which goes on."""
        if driver is not None and (job.resources.pool is None or not self.is_alive(driver)):
            self.kill(application, job, driver)

    def keep_pools(self, wanted: Collection[str]) -> None:
        """Start the pools that are needed and not there; end those that nobody has needed for a while."""
        self._wait_for_ended()
        now = time.time()
        for name in self._home.pools():
            found = PoolProcess.read(self._home.pool(name).process_file)
            if found is None or not self._is_there(found.pid, found.began):
                continue
            if now - found.beat > LIMITS.dead:
                end_session(found.pid, found.began)
            elif name in wanted:
                self._idle.pop(name, None)
            elif now - self._idle.setdefault(name, now) > _IDLE_SECONDS:
                _signal(found.pid, signal.SIGTERM)
        for name in wanted:
            if not self._is_pool(name):
                self._pools[name] = self._start("pool", name, self._home.pool(name).output_file)

    def stop_pools(self) -> None:
        """Send SIGTERM to the process of each pool."""
        for name in self._home.pools():
            found = PoolProcess.read(self._home.pool(name).process_file)
            if found is not None and self._is_there(found.pid, found.began):
                _signal(found.pid, signal.SIGTERM)

    def _is_pool(self, name: str) -> bool:
        """Whether a pool has a process, or gets one."""
        child = self._pools.get(name)
        if child is not None and child.poll() is None:
            return True
        found = PoolProcess.read(self._home.pool(name).process_file)
        return found is not None and self._is_there(found.pid, found.began)

    def _is_there(self, pid: int, known: str) -> bool:
        return began(pid) == known  # one that has ended and that nobody has waited for is not there

    def _start(self, module: str, name: str, output_file: Path) -> subprocess.Popen[bytes]:
        output_file.parent.mkdir(parents=True, exist_ok=True)
        _rotate(output_file)
        command = [sys.executable, "-m", f"braid.service.{module}", str(self._home.home.root), name]
        with output_file.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._home.home.root,
                env={name: text for name, text in os.environ.items() if name not in _SECRET},
                start_new_session=True,
            )
        self._wait_for_ended()
        self._children.append(child)
        return child

    def _wait_for_ended(self) -> None:
        """Wait for children that have ended, so that none is left as a zombie."""
        self._children = [one for one in self._children if one.poll() is None]


def end_session(leader: int, known: str) -> None:
    """End all processes of a session."""
    if not is_left(leader, known):
        return
    for pid in psutil.pids():
        try:
            mine = os.getsid(pid) == leader
        except ProcessLookupError:
            continue
        if mine:
            _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _rotate(path: Path) -> None:
    try:
        large = path.stat().st_size > _OUTPUT_BYTES
    except FileNotFoundError:
        return
    if large:
        path.replace(path.with_suffix(".1.log"))
