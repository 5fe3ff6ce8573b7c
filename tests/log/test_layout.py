from __future__ import annotations

import itertools

import numpy as np
import pytest

from braid.core.errors import LogError
from braid.log import shard_boundaries, shard_range
from braid.log.layout import check_name, commit_number, commit_path


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 8, 4096])
def test_shards_cover_all_hashes_once(shards):
    ranges = [shard_range(shard, shards) for shard in range(shards)]
    assert ranges[0][0] == -(2**63)
    assert ranges[-1][1] == 2**63 - 1
    assert all(low == high + 1 for (_, high), (low, _) in itertools.pairwise(ranges))
    assert shard_boundaries(shards).tolist() == [low for low, _ in ranges]


def test_shard_of_a_hash_counts_the_boundaries_below_it():
    boundaries = shard_boundaries(8)
    hashes = np.array([-(2**63), -1, 0, 2**61 - 1, 2**61, 2**63 - 1])
    assert np.searchsorted(boundaries[1:], hashes, side="right").tolist() == [0, 3, 4, 4, 5, 7]


@pytest.mark.parametrize("shards", [0, -1, 4097])
def test_impossible_shard_counts_are_refused(shards):
    with pytest.raises(LogError, match=f"{shards} shards"):
        shard_boundaries(shards)


def test_a_shard_that_does_not_exist_is_refused():
    with pytest.raises(LogError, match="shard 8 does not exist"):
        shard_range(8, 8)


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "ä", "-x"])
def test_names_that_are_no_safe_path_are_refused(name):
    with pytest.raises(LogError, match="category"):
        check_name(name, "category")


def test_commit_files_are_told_from_others():
    assert commit_number(commit_path(17).rpartition("/")[2]) == 17
    assert commit_number(".tmp-1f") is None
    assert commit_number("17.json") is None
