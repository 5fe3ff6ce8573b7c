"""Where shards keep their state: spread evenly by the hash that Spark uses."""

from __future__ import annotations

from braid.spark.operators.state_keys import murmur3, state_keys


def test_state_keys_spread_evenly_by_sparks_hash() -> None:
    # SELECT hash(0), hash(1), hash(2), hash(42) in Spark.
    assert [murmur3(value) for value in (0, 1, 2, 42)] == [933211791, -559580957, 1765031574, 29417773]
    for shards, partitions in ((8, 1), (8, 3), (5, 5), (64, 7)):
        keys = state_keys(shards, partitions)
        assert len(set(keys)) == shards
        assert [murmur3(key) % partitions for key in keys] == [
            i * partitions // shards for i in range(shards)
        ]
