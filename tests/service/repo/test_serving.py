"""`braid serve --repo` as a process, and the commands about it; without Spark, as nothing of it is to run."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from braid.api.data import publish
from braid.client.http import Client, service_of
from braid.client.repo import FileState
from tests.service.repo.conftest import program
from tests.service.repo.gits import Repository
from tests.service.repo.test_following import CLICKS, MORE
from tests.service.serving import Served, until

YAML = {"apps/clicks.yaml": "desired: stopped"}


@pytest.fixture
def served(tmp_path: Path, repository: Repository) -> Iterator[Served]:
    found = Served(tmp_path / "home")
    for name in "lr":
        publish(name, [{"id": 1, "t": 1_700_000_000, "k": "a"}], found.home)
    yield found
    found.close()


def client(served: Served) -> Client:
    found = service_of(served.home.root)
    assert found is not None
    return found


def is_applied(served: Served, commit: str) -> bool:
    with client(served) as asking:
        found = asking.repo()
    return found.commit == commit and [one.state for one in found.files] == [FileState.APPLIED]


def test_commands_about_the_folder(served: Served, repository: Repository) -> None:
    assert "is not a repository" in served.braid("serve", "--repo", str(served.home.root), code=1)
    first = repository.commit({CLICKS: program(), **YAML})
    served.start("--repo", str(repository.root), "--branch", "main")
    assert "following " in (served.home.root / "serve.log").read_text()
    until(lambda: is_applied(served, first), "the first commit is not applied")
    assert f"branch main, folder apps: commit {first[:12]}, seen " in served.braid("repo")
    second = repository.commit({CLICKS: program(MORE)})
    assert json.loads(served.braid("repo", "look", "--json"))["commit"] == second
    repository.commit({CLICKS: "broken"})
    said = served.braid("repo", "look")
    assert "problem" in said
    assert "PQL" in said
    assert "apps/clicks.sql" in served.braid("repo", "sync", "clicks", code=1)
    repository.commit({CLICKS: program()})
    assert "version 3 is what apps/clicks.sql says" in served.braid("repo", "sync", "clicks")
    with client(served) as asking:
        assert asking.application("clicks").state == "stopped"
    assert served.end() == 0


@pytest.mark.slow
def test_killing_the_service_neither_loses_nor_repeats_a_deploy(
    served: Served, repository: Repository
) -> None:
    dice = random.Random(7)
    for number in range(5):
        commit = repository.commit({CLICKS: program(f"l.id AS lid, {number} AS n"), **YAML})
        served.start("--repo", str(repository.root))
        with suppress(subprocess.TimeoutExpired):
            assert served._process is not None
            served._process.wait(dice.random())
        assert served.end(signal.SIGKILL) == -signal.SIGKILL
    served.start("--repo", str(repository.root))
    until(lambda: is_applied(served, commit), "the last commit is not applied")
    with client(served) as asking:
        landed = [event for event in asking.events("clicks") if event.kind == "version"]
        assert asking.application("clicks").version == len(landed) <= 5
        assert [version.number for version in asking.versions("clicks")] == list(range(1, len(landed) + 1))
        assert [(one.application, one.version) for one in asking.repo().files] == [("clicks", len(landed))]
