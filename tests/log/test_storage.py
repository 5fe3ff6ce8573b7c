from __future__ import annotations

import errno

import pytest

from braid.core.errors import LogError
from braid.log import Log, durable
from braid.log.storage import Storage
from tests.log.samples import Counting


@pytest.fixture(params=["local", "renames over", "refuses to rename over"])
def storage(request, tmp_path) -> Storage:
    if request.param == "local":
        return Storage.open(tmp_path)
    remote = Counting(str(tmp_path), renames_over=request.param == "renames over")
    return Storage.open("", remote.filesystem()).within("folder")


def test_a_name_is_given_once(storage):
    storage.make_folder()
    assert storage.create("a", b"first")
    assert not storage.create("a", b"second")
    assert storage.read("a") == b"first"
    assert [file.path for file in storage.files()] == ["a"]


def test_a_name_taken_in_the_last_moment_is_somebody_elses(tmp_path):
    remote = Counting(str(tmp_path), renames_over=False)
    storage = Storage.open("folder", remote.filesystem())
    storage.make_folder()
    rename = remote.move

    def taken_meanwhile(source, target):
        (tmp_path / target).write_bytes(b"theirs")
        rename(source, target)

    remote.move = taken_meanwhile
    assert not storage.create("a", b"ours")
    assert storage.read("a") == b"theirs"


def test_a_failed_sync_is_an_error_and_not_a_lost_race(tmp_path, monkeypatch):
    def fail(path):
        raise OSError(errno.EIO, "broken", path)

    monkeypatch.setattr(durable, "sync", fail)
    with pytest.raises(LogError, match=r"/a: cannot publish: Input/output error"):
        Storage.open(tmp_path).create("a", b"ours")


def test_content_is_exchanged_as_a_whole(storage):
    storage.make_folder()
    storage.create("a", b"old")
    with storage.lock():
        storage.replace("a", b"new")
    assert storage.read("a") == b"new"
    assert {file.path for file in storage.files()} - {".lock"} == {"a"}


def test_an_output_that_fails_leaves_nothing(storage):
    storage.make_folder()

    def write_half() -> None:
        with storage.output("a") as sink:
            sink.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_half()
    assert not storage.exists("a")


def test_removing_what_is_gone_is_no_error(storage):
    storage.make_folder()
    storage.create("a", b"")
    storage.remove("a")
    storage.remove("a")
    assert not storage.exists("a")


def test_a_uri_and_a_path_are_the_same_log(tmp_path):
    Log(tmp_path / "log").create("c", raw=True)
    assert Log(f"file://{tmp_path}/log").categories() == ["c"]


def test_a_root_that_is_a_file_is_named(tmp_path):
    (tmp_path / "log").write_text("not a folder")
    with pytest.raises(LogError, match=rf"{tmp_path}/log.*: cannot create the folder"):
        Log(tmp_path / "log").create("c", raw=True)


def test_an_unknown_filesystem_is_named():
    with pytest.raises(LogError, match=r"nowhere://there: cannot open the filesystem"):
        Log("nowhere://there")
