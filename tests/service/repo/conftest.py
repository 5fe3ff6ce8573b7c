"""A service that follows a repository; its loop takes a turn when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from braid.api.data import publish
from braid.service.loops.follow import Follow
from braid.service.settings import Settings
from tests.service.conftest import Tried, trying
from tests.service.repo.gits import Repository

API = "/api/v1"
INPUTS = """
CREATE APPLICATION {name};
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
"""
NEAR = "r.t BETWEEN l.t AND l.t + INTERVAL '1 minute'"


def program(
    columns: str = "l.id AS lid", keys: str = "l.k = r.k", name: str = "clicks", out: str = "out"
) -> str:
    """A program that joins two categories."""
    table = f"CREATE TABLE out AS SELECT {columns} FROM l LEFT JOIN r ON {keys} AND {NEAR}"
    return INPUTS.format(name=name) + f'{table} STORAGE SCRIBE(category = "{out}");'


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a commit that has no programs."""
    found = Repository(tmp_path / "repository")
    found.commit({"README.md": "nothing yet"})
    return found


@dataclass
class Followed:
    """A service, the repository that it follows, and who asks."""

    tried: Tried
    repository: Repository

    @property
    def follow(self) -> Follow:
        """The loop."""
        assert self.tried.state.follow is not None
        return self.tried.state.follow

    def push(self, files: dict[str, str | bytes | None] | None = None, **more: Any) -> str:
        """Commit files, and let the service see it."""
        commit = self.repository.commit(files, **more)
        self.look()
        return commit

    def look(self) -> None:
        """Let the service look at the repository, and do what is to be done."""
        self.follow.turn()
        self.tried.settle()

    def files(self) -> dict[str, tuple[str | None, str]]:
        """Applications and states of files, by path."""
        return {one["path"]: (one["application"], one["state"]) for one in self.repo()["files"]}

    def file(self, path: str) -> Any:
        """A file."""
        (found,) = (one for one in self.repo()["files"] if one["path"] == path)
        return found

    def repo(self) -> Any:
        """What is followed."""
        return self.get("/repo")

    def get(self, path: str) -> Any:
        """What the service says."""
        answer = self.tried.http.get(API + path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, status: int = 200, json: Any = None, headers: Any = None) -> Any:
        """Ask the service for something."""
        answer = self.tried.http.post(API + path, json=json, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def versions(self, name: str = "clicks") -> list[tuple[int, str, str]]:
        """Number, state and author of all versions."""
        found = self.get(f"/applications/{name}/versions")
        return [(one["number"], one["state"], one["author"]) for one in found]

    def events(self) -> list[str]:
        """What has happened to the folder."""
        return [one["text"] for one in self.get("/events") if one["kind"] == "folder"]


@pytest.fixture
def followed(tmp_path: Path, repository: Repository, request: pytest.FixtureRequest) -> Iterator[Followed]:
    """A service that follows the repository; parameters are settings."""
    more = {"trial_seconds": 0, **getattr(request, "param", {})}
    with trying(Settings(home=tmp_path / "home", repo=str(repository.root), **more)) as tried:
        for name in "lr":
            publish(name, [{"id": 1, "t": 1_700_000_000, "k": "a"}], tried.state.home)
        yield Followed(tried, repository)
