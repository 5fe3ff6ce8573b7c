"""Drivers as processes of this machine: each leads a process group, and goes on when the service ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from braid.core.processes import began, is_left
from braid.home.service import Driver, ServiceHome

_OUTPUT_BYTES = 1 << 20
"""Output of a driver beyond which a new file is begun."""


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

    def start(self, application: str) -> None:
        """Start a driver in a session of its own."""
        folder = self._home.driver(application)
        folder.root.mkdir(parents=True, exist_ok=True)
        _rotate(folder.output_file)
        command = [sys.executable, "-m", "braid.service.driver", str(self._home.home.root), application]
        with folder.output_file.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._home.home.root,
                start_new_session=True,
            )
        # Those that have ended are waited for, so that none is left as a zombie.
        self._children = [one for one in [*self._children, child] if one.poll() is None]

    def is_alive(self, driver: Driver) -> bool:
        """Whether a process with this number and this beginning is there."""
        for child in self._children:
            child.poll()  # so that one that has ended is gone
        return began(driver.pid) == driver.began

    def stop(self, driver: Driver) -> None:
        """Send SIGTERM to the driver; what it has started ends with it."""
        if self.is_alive(driver):
            _signal(driver.pid, signal.SIGTERM)

    def kill(self, driver: Driver) -> None:
        """Send SIGKILL to all processes of its session."""
        if not is_left(driver.pid, driver.began):
            return
        for pid in psutil.pids():
            try:
                mine = os.getsid(pid) == driver.pid
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
