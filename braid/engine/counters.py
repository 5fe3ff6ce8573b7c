"""Counters of tasks and shards, added up."""

from __future__ import annotations

from collections.abc import Iterable

Counts = dict[str, object]
"""Integers add up, maps by key, lists are put end to end, or by element under `SUMMED`; `SAME` keys agree.

Of maps under `LEAST`, the least value of each key stays.
"""
SAME = ("left_time", "right_time", "epoch")
SUMMED = ("distances_lower", "distances_upper")
LEAST = ("held",)


def merge(parts: Iterable[Counts]) -> Counts:
    """The sum of counters."""
    total: Counts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = value if name not in total else _add(name, total[name], value)
    return total


def _add(name: str, one: object, two: object) -> object:
    if name in SAME:
        return one
    if isinstance(one, list) and isinstance(two, list):
        return [a + b for a, b in zip(one, two, strict=True)] if name in SUMMED else one + two
    if isinstance(one, dict) and isinstance(two, dict):
        if name in LEAST:
            return {key: min(part[key] for part in (one, two) if key in part) for key in {**one, **two}}
        return merge([one, two])
    assert isinstance(one, int | float)
    assert isinstance(two, int | float)
    return one + two
