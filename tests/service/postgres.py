"""A PostgreSQL server of the tests' own, where its programs are installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "postgres"
"""Whom the server runs as where the tests are root's, which it refuses to run as."""


def binaries() -> Path | None:
    """Where the server's programs are; None if there are none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else None if on_path is None else Path(on_path).parent


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A running server in an empty folder: the URL of its database."""
    found = binaries()
    assert found is not None
    prefix = []
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
        for parent in folder.parents:
            if not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
        prefix = ["runuser", "-u", USER, "--"]
    data = folder / "data"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command: str) -> None:
        done = subprocess.run(
            [*prefix, *command], capture_output=True, text=True, timeout=60, cwd=folder, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(str(found / "initdb"), "-D", str(data), "-A", "trust", "-U", USER, "-E", "UTF8", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    run(str(found / "pg_ctl"), "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
    finally:
        run(str(found / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
