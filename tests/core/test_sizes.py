from __future__ import annotations

import pytest

from braid.core.sizes import parse_size, size_words


@pytest.mark.parametrize(
    ("text", "size"), [("512m", 512 << 20), ("1.5g", 3 << 29), ("100 kB", 102_400), (7, 7), ("2T", 2 << 40)]
)
def test_sizes_are_read(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "m", "-1g", "1 x", True, None])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 kB"), (300 << 20, "300 MB"), (5e15, "4.4 PB")],
)
def test_sizes_in_words(size: float, words: str) -> None:
    assert size_words(size) == words
