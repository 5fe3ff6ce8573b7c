"""State keys of shards, chosen so that Spark's own hash spreads the shards evenly over state partitions."""

from __future__ import annotations

from itertools import count

_MASK = 0xFFFFFFFF


def state_keys(shards: int, partitions: int) -> tuple[int, ...]:
    """A key for each shard: shard i gets a key that Spark puts on partition `i * partitions // shards`."""
    taken: list[set[int]] = [set() for _ in range(partitions)]
    wanted = [shard * partitions // shards for shard in range(shards)]
    need = [wanted.count(partition) for partition in range(partitions)]
    for key in count():
        partition = murmur3(key) % partitions
        if len(taken[partition]) < need[partition]:
            taken[partition].add(key)
        elif all(len(keys) == size for keys, size in zip(taken, need, strict=True)):
            break
    free = [iter(sorted(keys)) for keys in taken]
    return tuple(next(free[partition]) for partition in wanted)


def murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of a 32-bit integer, signed: what its hash partitioning takes the remainder of."""
    mixed = (value * 0xCC9E2D51) & _MASK
    mixed = ((mixed << 15) | (mixed >> 17)) & _MASK
    mixed = (mixed * 0x1B873593) & _MASK
    result = seed ^ mixed
    result = ((result << 13) | (result >> 19)) & _MASK
    result = (result * 5 + 0xE6546B64) & _MASK
    result ^= 4
    result ^= result >> 16
    result = (result * 0x85EBCA6B) & _MASK
    result ^= result >> 13
    result = (result * 0xC2B2AE35) & _MASK
    result ^= result >> 16
    return result - 2**32 if result >> 31 else result
