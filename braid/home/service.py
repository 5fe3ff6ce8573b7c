"""What the service of a home keeps in it, for itself, its drivers, and clients on this machine.

service/address.json          where it listens, while it runs            (only its owner may read it)
service/token                 a token for its owner                      (only its owner may read it)
service/serve.lock            held by the process that serves
service/registry.db           the registry, unless it is in PostgreSQL
service/repo/                 a copy of the repository that is followed
service/drivers/<application>/
    plan.json                 the plan that it is to run: written before job.json
    job.json                  what else its driver is to know: written by the service before it starts one
    driver.json               who runs it, and how that went: written by the driver
    stop                      the number of a job of a pool that is to end
    output.log                what the driver has printed
service/pools/<pool>/
    pool.json                 which process runs the applications of a pool: written by that
    pool.lock                 held by it
    output.log, spark.log     what it, and Spark, have printed
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from braid.home.paths import Home
from braid.home.records import Record
from braid.log.layout import check_name


class Address(Record):
    """Where a service listens.

    Parameters
    ----------
    url
        Of its HTTP API.
    pid
        Its process.
    certificate
        File of the certificate that it shows; None without HTTPS.
    """

    url: str
    pid: int
    certificate: str | None = None


class Resources(Record):
    """What an application asks for; what is not given is what is usual where it runs.

    Parameters
    ----------
    cores
        Of each executor; on this machine, of Spark.
    memory
        Of Java, in the driver and in each executor: `512m`, `2g`.
    executors
        How many, on a cluster.
    pool
        Of which pool it is: small applications of a pool share a driver.
    """

    model_config = ConfigDict(extra="forbid")

    cores: int | None = Field(None, ge=1, le=4096, examples=[2])
    memory: str | None = Field(None, pattern="^[1-9][0-9]{0,6}[mg]$", examples=["2g"])
    executors: int | None = Field(None, ge=1, le=10_000, examples=[2])
    pool: str | None = Field(None, pattern="^[A-Za-z][A-Za-z0-9_]{0,99}$", examples=["small"])

    @property
    def asked(self) -> dict[str, int | str]:
        """What is given, by name."""
        return self.model_dump(exclude_none=True)


class Job(Record):
    """What a driver is to run; the plan is in a file of its own, as nobody else needs it.

    Parameters
    ----------
    id
        Of this start: a driver that finds another one here has been replaced.
    version
        Of the application, as the service counts.
    options
        That override those of the plan.
    replay, discard
        What an update may do.
    create
        Whether inputs that are not there are made, empty.
    master
        Where Spark runs.
    resources
        What it asks for.
    asked
        When it was written, in seconds since the epoch.
    """

    id: str
    version: int
    options: dict[str, str] = Field(default_factory=dict)
    replay: bool = False
    discard: bool = False
    create: bool = False
    master: str | None = None
    resources: Resources = Resources()
    asked: float


class JobPlan(Record):
    """The plan of a job.

    Parameters
    ----------
    job
        Whose plan it is: a driver that finds that of another job has been replaced.
    plan
        The plan, as JSON.
    """

    job: str
    plan: dict[str, Any]


class DriverState(StrEnum):
    """Where a driver is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"

    @property
    def active(self) -> bool:
        """Whether a process should be there."""
        return self in (DriverState.STARTING, DriverState.RUNNING)


class Domain(StrEnum):
    """Whose fault a failure is."""

    USER = "user"
    """The program's, which fails again whoever starts it."""
    OUTSIDE = "outside"
    """That of something else, such as a disk, which may pass."""
    OURS = "ours"
    """That of a bug."""


class Driver(Record):
    """Who runs an application, and how that went.

    Parameters
    ----------
    job, version
        What it runs.
    pid, began
        Its process: see `braid.core.processes`.
    started
        When the application ran; None before.
    beat
        When it last said that it is alive.
    state, phase
        Where it is; and, while it starts, what it is doing.
    error, domain
        What it has failed with, and whose fault that is.
    told
        Whether it was asked to end, by the service or as a machine that is shut down asks every process.
    place
        The pod that the process is in, by its unique number; None if it is on the machine of the service.
    """

    job: str
    version: int
    pid: int
    began: str
    started: float | None = None
    told: bool = False
    place: str | None = None
    beat: float
    state: DriverState = DriverState.STARTING
    phase: str | None = None
    error: str | None = None
    domain: Domain | None = None


class PoolProcess(Record):
    """The process that runs the applications of a pool.

    Parameters
    ----------
    pid, began
        The process: see `braid.core.processes`.
    beat
        When it last said that it is alive.
    place
        As of a driver.
    """

    pid: int
    began: str
    beat: float
    place: str | None = None


@dataclass(frozen=True)
class ServiceHome:
    """The folder of the service in a home."""

    home: Home

    @property
    def root(self) -> Path:
        """The folder itself."""
        return self.home.root / "service"

    @property
    def address_file(self) -> Path:
        """Where it listens."""
        return self.root / "address.json"

    @property
    def token_file(self) -> Path:
        """A token for its owner."""
        return self.root / "token"

    @property
    def lock_file(self) -> Path:
        """Held by the process that serves."""
        return self.root / "serve.lock"

    @property
    def registry_file(self) -> Path:
        """The registry, if it is SQLite's."""
        return self.root / "registry.db"

    @property
    def repo_folder(self) -> Path:
        """Where the repository that is followed is copied to."""
        return self.root / "repo"

    def driver(self, application: str) -> DriverHome:
        """The folder of the driver of an application."""
        return DriverHome(self.root / "drivers" / check_name(application, "application"))

    def drivers(self) -> list[str]:
        """Applications that have ever had a driver, by name."""
        folder = self.root / "drivers"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def pool(self, name: str) -> PoolHome:
        """The folder of a pool."""
        return PoolHome(self.root / "pools" / check_name(name, "pool"))

    def pools(self) -> list[str]:
        """Pools that have ever had a process, by name."""
        folder = self.root / "pools"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def make(self) -> None:
        """Make the folder, so that only its owner can look into it."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)


@dataclass(frozen=True)
class DriverHome:
    """The folder of a driver."""

    root: Path

    @property
    def job_file(self) -> Path:
        """What it is to run."""
        return self.root / "job.json"

    @property
    def plan_file(self) -> Path:
        """The plan that it is to run."""
        return self.root / "plan.json"

    @property
    def driver_file(self) -> Path:
        """Who runs it."""
        return self.root / "driver.json"

    @property
    def stop_file(self) -> Path:
        """Tells the process of its pool which job is to end."""
        return self.root / "stop"

    @property
    def output_file(self) -> Path:
        """What it has printed."""
        return self.root / "output.log"


@dataclass(frozen=True)
class PoolHome:
    """The folder of a pool."""

    root: Path

    @property
    def process_file(self) -> Path:
        """Who runs its applications."""
        return self.root / "pool.json"

    @property
    def lock_file(self) -> Path:
        """Held by that process."""
        return self.root / "pool.lock"

    @property
    def spark_log(self) -> Path:
        """What Spark has printed."""
        return self.root / "spark.log"

    @property
    def output_file(self) -> Path:
        """What the process has printed."""
        return self.root / "output.log"


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
