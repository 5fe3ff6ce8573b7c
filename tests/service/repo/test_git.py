"""Repositories are read whatever is in them, and nothing of them runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from braid.core.errors import ConfigError
from braid.service.repo.applying import writers
from braid.service.repo.folder import check_folder
from braid.service.repo.git import CutShortError, RepoError, shown
from braid.service.repo.mirror import Mirror, Remote
from braid.service.settings import Settings
from tests.service.conftest import trying
from tests.service.repo.conftest import Followed, program
from tests.service.repo.gits import Repository
from tests.service.repo.test_following import CLICKS


def mirror(tmp_path: Path, repository: Repository, branch: str | None = None) -> Mirror:
    return Mirror(tmp_path / "mirrors", Remote.of(str(repository.root), branch))


def test_working_trees_bare_repositories_and_urls_are_followed(
    tmp_path: Path, repository: Repository
) -> None:
    head = repository.commit({CLICKS: "a"})
    repository.write({CLICKS: "what is not committed does not count"})
    bare = tmp_path / "bare.git"
    repository.git("clone", "--quiet", "--bare", str(repository.root), str(bare))
    for place in (str(repository.root), str(bare), f"file://{bare}"):
        found = Mirror(tmp_path / "mirrors", Remote.of(place, None))
        assert (found.look(), found.branch) == (head, "main")
        (entry,) = found.git.tree(head, "apps")
        assert found.git.blobs([entry.hash]) == {entry.hash: b"a"}
        assert [entry.name for entry in found.git.tree(head, "")] == ["README.md", "apps"]
        assert found.git.tree(head, "ap") == found.git.tree(head, "README.md") == []
    # Copies of what is not followed any more are gone.
    assert len(list((tmp_path / "mirrors").iterdir())) == 1


def test_another_branch_is_followed(tmp_path: Path, repository: Repository) -> None:
    repository.git("branch", "team/live")
    repository.commit({CLICKS: "a"})
    found = mirror(tmp_path, repository, "team/live")
    assert found.look() == repository.git("rev-parse", "team/live")
    repository.git("branch", "--quiet", "--force", "team/live", "main")
    assert found.look() == repository.git("rev-parse", "main") == found.head()
    repository.git("branch", "--delete", "--force", "team/live")
    with pytest.raises(RepoError, match="no branch 'team/live'\n  hint: branches: main"):
        found.look()


def test_repositories_with_longer_hashes_are_followed(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    repository = Repository(root)
    shutil.rmtree(root / ".git")
    repository.git("init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    head = repository.commit({CLICKS: "a"})
    assert len(head) == 64
    assert mirror(tmp_path, repository).look() == head


def test_what_cannot_be_followed_is_refused_when_the_service_begins(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for place, branch, said in (
        (str(tmp_path / "none"), None, "there is no repository"),
        (str(plain), None, "is not a repository that can be read"),
        ("--upload-pack=touch /tmp/x", None, "there is no repository"),
        ("-x:y", None, "there is no repository"),
        ("https://ann:secret@git.example/x.git", None, r"https://\*\*\*@git.example/x.git has a password"),
        (str(repository.root), "a..b", "'a..b' is not the name of a branch"),
        (str(repository.root), "a b", "is not the name of a branch"),
        (str(repository.root), "main:other", "is not the name of a branch"),
    ):
        with pytest.raises(ConfigError, match=said) as found:
            Remote.of(place, branch)
        assert "secret" not in str(found.value)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="needs the program git"):
        Remote.of(str(repository.root), None)


def test_folders_are_named_from_the_root() -> None:
    assert [check_folder(text) for text in ("apps", "apps/", "a/b", ".", "", "./a")] == [
        "apps",
        "apps",
        "a/b",
        "",
        "",
        "a",
    ]
    for text in ("/apps", "../apps", "a/../../b", "a\nb", "a" * 500):
        with pytest.raises(ConfigError, match="is not a folder"):
            check_folder(text)


def test_secrets_are_not_told() -> None:
    assert (
        shown("fatal: 'https://ann:s@cret@git.example/x' not found")
        == "fatal: 'https://***@git.example/x' not found"
    )
    assert shown("git@git.example:x.git") == "git@git.example:x.git"


def test_commands_of_a_repository_are_not_run(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    script = f"#!/bin/sh\ntouch {trap}\nexit 1\n"
    for name in ("post-checkout", "pre-receive", "reference-transaction", "post-update", "update"):
        hook = repository.root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(script)
        hook.chmod(0o755)
    home = tmp_path / "someone"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f"[core]\n hooksPath = {repository.root}/.git/hooks\n[fetch]\n recurseSubmodules = true\n"
    )
    repository.write({".gitmodules": f'[submodule "x"]\n path = apps/x\n url = ext::sh -c "touch {trap}"\n'})
    repository.write({".gitattributes": "*.sql filter=evil\n"})
    hash_ = repository.git("rev-parse", "HEAD")
    repository.write({CLICKS: "a"})
    repository.git("add", "--all")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{hash_},apps/x.sql")
    repository.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "a trap")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    found = mirror(tmp_path, repository)
    kinds = {entry.name: entry.kind for entry in found.git.tree(found.look(), "apps")}
    assert kinds == {"clicks.sql": "blob", "x.sql": "commit"}
    assert not trap.exists()
    ext = Mirror(tmp_path / "mirrors", Remote(f"ext::sh -c touch% {trap}", None))
    with pytest.raises(RepoError, match="transport 'ext' not allowed"):
        ext.look()
    assert not trap.exists()


def test_a_copy_that_is_damaged_is_made_anew(tmp_path: Path, repository: Repository) -> None:
    found = mirror(tmp_path, repository)
    found.look()
    for damage in ("objects", "HEAD", "refs"):
        head = repository.commit({CLICKS: damage})
        path = found.git.folder / damage
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert found.look() == head
        assert found.git.tree(head, "apps")
    # As a service leaves behind that was killed while it fetched.
    head = repository.commit({CLICKS: "more"})
    (found.git.folder / "refs" / "braid" / "head.lock").touch()
    assert found.look() == head
    assert len(list((tmp_path / "mirrors").iterdir())) == 1


def test_git_that_takes_too_long_is_ended(tmp_path: Path, repository: Repository) -> None:
    found = mirror(tmp_path, repository)
    head = found.look()
    with pytest.raises(CutShortError, match="has not ended within"):
        found.git.run("-c", "alias.wait=!sleep 600", "wait", seconds=0.2)
    assert found.look() == head
    found.git.running.cancel()
    with pytest.raises(CutShortError, match="the service ends"):
        found.look()


def test_all_who_have_written_are_known(tmp_path: Path, repository: Repository) -> None:
    found = mirror(tmp_path, repository)
    first = repository.commit({CLICKS: "a"}, author="Ann Example <ann@example.com>")
    repository.commit(
        {CLICKS: "b"}, "one\n\nCo-authored-by: Cy <cy@example.com>", author="Bob <bob@example.com>"
    )
    head = repository.commit({"README.md": "x"}, author="Dora <dora@example.com>")
    found.look()
    since, all_ = found.git.commits(head, first, [CLICKS]), found.git.commits(head, None, [CLICKS])
    assert [commit.name for commit in since] == ["Bob"]
    assert writers(since) == ("Bob", "bob@example.com", "bob", "Cy", "cy@example.com", "cy")
    assert [commit.name for commit in all_] == ["Bob", "Ann Example"]
    # What nobody has changed since then was written by whoever has changed it last.
    assert [commit.name for commit in found.git.commits(head, head, [CLICKS])] == ["Bob"]
    assert [commit.name for commit in found.git.commits(head, "0" * 40, [CLICKS])] == ["Bob", "Ann Example"]
    assert [commit.name for commit in found.git.commits(head, None, ["apps/*"])] == ["Dora"]


def test_odd_files_are_told_and_hold_nothing_up(followed: Followed) -> None:
    root = followed.repository.root
    followed.repository.write(
        {
            CLICKS: program(),
            "apps/bytes.sql": b"CREATE APPLICATION \xff\xfe",
            "apps/zero.sql": program(name="zero").encode() + b"-- \0",
            "apps/large.sql": "-" * ((1 << 20) + 1),
            "apps/lfs.sql": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "apps/empty.sql": "",
            "apps/bom.sql": b"\xef\xbb\xbf" + program(name="bom", out="bommed").encode(),
            "apps/folder.sql/x.sql": program(name="nested"),
            "apps/-rf.sql": program(name="dashed", out="dashed"),
            "apps/:(top)x [y]*.sql": program(name="magic", out="magic"),
            "apps/ä ö.sql": program(name="umlauts", out="umlauts"),
            "apps/two\nlines.sql": program(name="lines", out="lines"),
            "apps/.hidden.sql": "not looked at",
            "apps/" + "n" * 200 + ".sql": program(name="long", out="long"),
            "apps/named.sql": program(name="n" * 190, out="named"),
            "apps/yaml.sql": program(name="yaml", out="yaml"),
            "apps/yaml.yaml": b"\xff",
        }
    )
    (root / "apps" / "link.sql").symlink_to("/etc/passwd")
    (root / "apps" / os.fsdecode(b"latin\xe4.sql")).write_text(program(name="latin", out="latin"))
    followed.push(author="<b>Ann</b>\u202e <ann@example.com>")
    told = {
        path: (state, followed.file(path)["problem"] or "") for path, (_, state) in followed.files().items()
    }
    odd = {path: problem for path, (state, problem) in told.items() if state != "applied"}
    assert set(told) - set(odd) == {
        CLICKS,
        "apps/bom.sql",
        "apps/-rf.sql",
        "apps/:(top)x [y]*.sql",
        "apps/ä ö.sql",
    }
    name = "its name is too long, or has characters that cannot be printed"
    expected = {
        "apps/bytes.sql": "apps/bytes.sql: it is not UTF-8: invalid start byte at byte 19",
        "apps/zero.sql": "apps/zero.sql: it has a byte that is zero",
        "apps/large.sql": "apps/large.sql has 1,048,577 bytes; at most 1,048,576 are read",
        "apps/lfs.sql": "apps/lfs.sql: it is kept by Git LFS",
        "apps/empty.sql": "apps/empty.sql:1:",
        "apps/folder.sql": "apps/folder.sql is a folder",
        "apps/link.sql": "apps/link.sql is a symbolic link",
        r"apps/two\x0alines.sql": name,
        r"apps/latin\xe4.sql": name,
        "apps/nnn": name,
        "apps/named.sql": "apps/named.sql:2:20: error PQL215",
        "apps/yaml.sql": "apps/yaml.yaml: it is not UTF-8",
    }
    for path, problem in expected.items():
        (found,) = (text for other, text in odd.items() if other.startswith(path))
        assert found.startswith(problem), path
    assert len(odd) == len(expected)
    assert followed.versions()[0][2] == "git:bAnn/b"  # as Git has it
    assert followed.versions("magic")[0][1] == "accepted"
    events = followed.get("/events")
    followed.look()
    assert followed.get("/events") == events


def test_more_programs_than_anybody_has_are_not_looked_at(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    followed.push({f"apps/a{number}.sql": "x" for number in range(1001)})
    assert "apps has 1,002 programs" in followed.repo()["trouble"]
    assert followed.files() == {CLICKS: ("clicks", "applied")}


def test_a_program_that_finds_a_bug_does_not_end_the_service(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_text(text: str, filename: str) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("braid.api.compile_text", compile_text)
    followed.push({CLICKS: program()})
    assert "it finds a bug: ZeroDivisionError" in followed.file(CLICKS)["problem"]


def test_an_outage_of_the_repository_stops_nothing(tmp_path: Path, followed: Followed) -> None:
    root, away = followed.repository.root, tmp_path / "away"
    followed.push({CLICKS: program()})
    head = followed.repo()["commit"]
    root.rename(away)
    followed.look()
    found = followed.repo()
    assert found["commit"] == head
    assert found["trouble"].startswith("git ls-remote: ")
    assert "in order" not in followed.events()[-1]
    # What was seen last counts, for another service, too.
    followed.post("/applications/clicks/stop")
    followed.look()
    followed.look()
    assert followed.file(CLICKS)["state"] == "drift"
    assert len([text for text in followed.events() if "ls-remote" in text]) == 1
    again = Mirror(tmp_path / "home" / "service" / "repo", followed.follow._mirror.remote)
    assert again.head() == head
    # It is well all the same: nobody has to start anything again.
    assert followed.follow.trouble is None
    away.rename(root)
    followed.push({CLICKS: program("l.id AS x")})
    assert followed.repo()["trouble"] is None
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert "the repository is in order again" in followed.events()


def test_a_service_that_begins_during_an_outage_begins(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/nowhere.git"
    with trying(Settings(home=tmp_path / "home", repo=url)) as tried:
        assert tried.state.follow is not None
        tried.state.follow.turn()
        found = tried.http.get("/api/v1/repo").json()
        assert (found["commit"], found["files"]) == (None, [])
        assert "does not appear to be a git repository" in found["trouble"]
        assert tried.http.post("/api/v1/repo/applications/x/sync").status_code == 404
    with trying(Settings(home=tmp_path / "home")) as tried:
        answer = tried.http.get("/api/v1/repo")
        assert (answer.status_code, answer.json()["hint"]) == (404, "braid serve --repo DIR")


def test_a_repository_without_commits_is_told(tmp_path: Path) -> None:
    found = mirror(tmp_path, Repository(tmp_path / "repository"))
    with pytest.raises(RepoError, match="HEAD has no commit yet\n  hint: branches: none"):
        found.look()
