"""A service in a process of its own, and commands that are given to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from braid.home.paths import Home
from braid.home.service import Address, Driver, PoolProcess, ServiceHome
from braid.service.backends.local import end_session

WAIT = 120.0


class Served:
    """A home with a service.

    Parameters
    ----------
    root
        The folder of the home.
    """

    def __init__(self, root: Path) -> None:
        self.home = Home.at(root)
        self.folder = ServiceHome(self.home)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        """Start the service, and wait until it answers."""
        root = self.home.root
        root.mkdir(parents=True, exist_ok=True)
        with (root / "serve.log").open("ab") as output:
            command = [sys.executable, "-m", "braid.cli", "serve", "--home", str(root), "--port", "0", *flags]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        pid = self._process.pid

        def ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, (root / "serve.log").read_text()
            address = Address.read(self.folder.address_file)
            return address is not None and address.pid == pid

        until(ready, "the service does not begin")

    @property
    def pid(self) -> int:
        """The process that serves."""
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> str:
        """Where it listens."""
        found = Address.read(self.folder.address_file)
        assert found is not None
        return found.url

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the service by a signal; its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(WAIT)

    def braid(self, *arguments: str, code: int = 0) -> str:
        """Give a command; what it prints."""
        environment = {name: text for name, text in os.environ.items() if not name.startswith("BRAID_")}
        done = subprocess.run(
            [sys.executable, "-m", "braid.cli", *arguments, "--home", str(self.home.root)],
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
            env=environment,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def info(self, name: str) -> Any:
        """What the service says of an application."""
        return json.loads(self.braid("app", name, "--json"))

    def driver(self, name: str) -> Driver | None:
        """Who runs an application."""
        return Driver.read(self.folder.driver(name).driver_file)

    def kill_driver(self, name: str) -> None:
        """Kill a driver with all that it has started."""
        driver = self.driver(name)
        assert driver is not None
        end_session(driver.pid, driver.began)

    def pool(self, name: str) -> PoolProcess | None:
        """Who runs the applications of a pool."""
        return PoolProcess.read(self.folder.pool(name).process_file)

    def kill_pool(self, name: str) -> None:
        """Kill the process of a pool with all that it has started."""
        found = self.pool(name)
        if found is not None:
            end_session(found.pid, found.began)

    def close(self) -> None:
        """Kill all that is left."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(WAIT)
        for name in self.folder.drivers():
            if self.driver(name) is not None:
                self.kill_driver(name)
        for name in self.folder.pools():
            self.kill_pool(name)


def until(holds: Callable[[], bool], what: str, seconds: float = WAIT) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)
