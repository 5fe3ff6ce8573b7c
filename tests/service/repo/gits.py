"""Repositories of the tests' own, written without a working tree of anybody's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Repository:
    """A repository with a working tree.

    Parameters
    ----------
    root
        Its folder, which is made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, author: str = "Ann Example <ann@example.com>") -> str:
        """What a command of Git prints."""
        name, _, email = author.rstrip(">").partition(" <")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": email,
            "GIT_COMMITTER_NAME": "Committer",
            "GIT_COMMITTER_EMAIL": "committer@example.com",
        }
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, files: dict[str, str | bytes | None]) -> None:
        """Write files in the working tree; None removes one."""
        for name, held in files.items():
            path = self.root / name
            if held is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(held.encode() if isinstance(held, str) else held)

    def commit(
        self,
        files: dict[str, str | bytes | None] | None = None,
        message: str = "a change",
        author: str = "Ann Example <ann@example.com>",
    ) -> str:
        """Commit files, and all that is in the working tree; the commit."""
        self.write(files or {})
        self.git("add", "--all", author=author)
        self.git("commit", "--quiet", "--allow-empty", "--message", message, author=author)
        return self.git("rev-parse", "HEAD")
