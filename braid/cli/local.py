"""Applications of a home that no service is asked about, told as a service tells of them."""

from __future__ import annotations

from pathlib import Path

from braid import api
from braid.client.models import ApplicationInfo, Deleted, Desired, LogLines
from braid.core.errors import RunError
from braid.home.log_lines import read_lines
from braid.home.paths import Home
from braid.home.service import ServiceHome
from braid.home.status import Status
from braid.home.versions import newest


def applications(home: Path | None) -> list[ApplicationInfo]:
    """Applications that have run in a home."""
    return [_info(status, home) for status in api.status(home)]


def application(name: str, home: Path | None) -> ApplicationInfo:
    """One of them, with the metrics of its stages."""
    status = api.application_status(name, home)
    return _info(status, home).model_copy(update={"status": status.model_dump(mode="json")})


def logs(name: str, home: Path | None, after: int | None = None, lines: int = 200) -> LogLines:
    """Lines of an application's log."""
    api.application_status(name, home)
    found = read_lines(Home.at(home).application(name).log_file, after, lines)
    return LogLines(lines=found.lines, next=found.next)


def is_deployed(name: str, home: Path | None) -> bool:
    """Whether a service of the home has run an application, and would do so again."""
    return ServiceHome(Home.at(home)).driver(name).job_file.exists()


def delete(name: str, home: Path | None, *, keep_data: bool, dry_run: bool) -> Deleted:
    """Remove an application with what it has stored, or only say what would go."""
    api.application_status(name, home)
    if is_deployed(name, home):
        raise RunError(
            f"application {name!r} is deployed, and no service of this home is running",
            hint="a service would start it again: start one (`braid serve`), then delete it",
        )
    found = api.drop_application(name, home, keep_data=keep_data, dry_run=dry_run)
    return Deleted(removed=found.removed, kept=list(found.kept))


def _info(status: Status, home: Path | None) -> ApplicationInfo:
    active = status.state.active
    return ApplicationInfo(
        name=status.application,
        desired=Desired.RUNNING if active else Desired.STOPPED,
        version=newest(Home.at(home).application(status.application)),
        state=status.state,
        pid=status.pid if active else None,
        started=status.started if active else None,
        error=status.error,
    )
