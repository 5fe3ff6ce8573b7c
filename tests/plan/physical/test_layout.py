"""Where state partitions are to be."""

from __future__ import annotations

import random
from collections import Counter

from braid.plan.physical.layout import spread


def test_at_first_they_are_dealt_out() -> None:
    assert spread([None] * 5, ["a", "b"]) == ["a", "b", "a", "b", "a"]
    assert spread([None] * 2, ["a", "b", "c"]) == ["a", "b"]


def test_what_is_even_stays() -> None:
    for places in (["b", "a"], ["b", "a", "b"], ["a", "b", "b"], ["b", "b", "a", "a"]):
        assert spread(places, ["a", "b"]) == places
    assert spread(["c", "a"], ["a", "b", "c"]) == ["c", "a"]


def test_only_what_must_be_moved_is_moved() -> None:
    assert spread(["a", "a"], ["a", "b"]) == ["a", "b"]
    assert spread(["b", "gone", "b", "gone"], ["a", "b"]) == ["b", "a", "b", "a"]
    assert spread(["a", "b", "b", "b", "b"], ["a", "b"]) == ["a", "b", "b", "b", "a"]


def test_it_is_even_and_no_other_way_moves_fewer() -> None:
    rng = random.Random(5)
    for _ in range(300):
        executors = [f"e{number}" for number in range(rng.randint(1, 6))]
        places = [rng.choice([*executors, "gone", None]) for _ in range(rng.randint(1, 12))]
        found = spread(places, executors)
        counts = Counter(found)
        sizes = sorted(counts[one] for one in executors)
        assert sizes[-1] - sizes[0] <= 1
        held = sorted((Counter(places)[one] for one in executors), reverse=True)
        stay = sum(min(had, may) for had, may in zip(held, reversed(sizes), strict=True))
        assert sum(one == place for one, place in zip(found, places, strict=True)) == stay
        assert spread(found, executors) == found
