"""A bounded cache that can be told to let go of entries, unlike `functools.lru_cache`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Lru(Generic[Key, Value]):
    """The entries used last, at most `limit` of them. Threads may share it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[Key, Value] = {}
        self._lock = Lock()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The entry of a key, made if it is not there. Threads that ask at once may each make one."""
        with self._lock:
            if key in self._entries:
                value = self._entries[key] = self._entries.pop(key)
                return value
        value = make()
        with self._lock:
            self._entries[key] = value
            if len(self._entries) > self._limit:
                del self._entries[next(iter(self._entries))]
        return value

    def keep(self, wanted: Callable[[Key], bool]) -> None:
        """Let go of every entry whose key is not wanted."""
        with self._lock:
            self._entries = {key: value for key, value in self._entries.items() if wanted(key)}

    def __len__(self) -> int:
        return len(self._entries)
