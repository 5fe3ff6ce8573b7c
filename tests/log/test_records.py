"""Commit records say who wrote them, and those of earlier versions are read the same way."""

from __future__ import annotations

from braid.log.records import Commit, Origin, seal_commit


def test_a_commit_has_an_origin() -> None:
    sealed = seal_commit(3, [], {"at": 5}, 7, origin=Origin("out", 12))
    commit = Commit.unseal(sealed, 3, "here")
    assert (commit.origin, commit.watermarks) == (Origin("out", 12), {"at": 5})


def test_a_commit_may_have_none() -> None:
    commit = Commit.unseal(seal_commit(0, [], {"at": 5}, 7), 0, "here")
    assert (commit.origin, commit.watermarks) == (None, {"at": 5})


def test_the_origin_of_an_older_commit_was_a_watermark() -> None:
    commit = Commit.unseal(seal_commit(0, [], {"commit:out": 12}, 7), 0, "here")
    assert (commit.origin, commit.watermarks) == (Origin("out", 12), {})
