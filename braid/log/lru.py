"""A bounded cache that can be told to let go of entries, unlike `functools.lru_cache`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Lru(Generic[Key, Value]):
    """The entries used last. Threads may share it.

    Parameters
    ----------
    limit
        How many at most.
    weight, heaviest
        What an entry weighs, and how much all of them at most; one alone may be heavier. None if only their
        number counts.
    """

    def __init__(self, limit: int, weight: Callable[[Value], int] | None = None, heaviest: int = 0) -> None:
        self._limit = limit
        self._weight = weight
        self._heaviest = heaviest
        self._entries: dict[Key, Value] = {}
        self._total = 0
        self._lock = Lock()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The entry of a key, made if it is not there. Threads that ask at once may each make one."""
        with self._lock:
            if key in self._entries:
                value = self._entries[key] = self._entries.pop(key)
                return value
        value = make()
        with self._lock:
            if key in self._entries:
                self._drop(key)
            self._entries[key] = value
            self._total += self._weigh(value)
            while len(self._entries) > self._limit or (len(self._entries) > 1 and self._is_heavy()):
                self._drop(next(iter(self._entries)))
        return value

    def keep(self, wanted: Callable[[Key], bool]) -> None:
        """Let go of every entry whose key is not wanted."""
        with self._lock:
            for key in [key for key in self._entries if not wanted(key)]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        self._total -= self._weigh(self._entries.pop(key))

    def _weigh(self, value: Value) -> int:
        return 0 if self._weight is None else self._weight(value)

    def _is_heavy(self) -> bool:
        return self._total > self._heaviest

    def __len__(self) -> int:
        return len(self._entries)
