"""A cache that is bounded by number and by weight."""

from __future__ import annotations

from braid.log.lru import Lru


def put(cache: Lru[str, int], *values: int) -> None:
    for value in values:
        cache.get(str(value), lambda value=value: value)  # type: ignore[misc]


def kept(cache: Lru[str, int]) -> list[int]:
    found: list[int] = []
    cache.keep(lambda key: bool(found.append(int(key))) or True)
    return found


def test_those_used_last_stay() -> None:
    cache = Lru[str, int](2)
    put(cache, 1, 2, 1, 3)
    assert kept(cache) == [1, 3]


def test_heavy_entries_push_others_out() -> None:
    cache = Lru[str, int](10, lambda value: value, heaviest=10)
    put(cache, 3, 4, 2)
    assert kept(cache) == [3, 4, 2]
    put(cache, 5)
    assert kept(cache) == [2, 5]
    put(cache, 50)
    assert kept(cache) == [50]
    put(cache, 1)
    assert kept(cache) == [1]
    cache.keep(lambda key: False)
    put(cache, 10)
    assert kept(cache) == [10]


def test_entries_that_two_have_made_weigh_once() -> None:
    cache = Lru[str, int](10, lambda value: value, heaviest=10)

    def make() -> int:
        put(cache, 6)
        return 6

    assert cache.get("6", make) == 6
    put(cache, 4)
    assert kept(cache) == [6, 4]
