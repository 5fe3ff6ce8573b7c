"""The table of docs/metrics.md shows every counter."""

from __future__ import annotations

from tools import counters


def test_the_table_in_the_docs_is_up_to_date() -> None:
    text = (counters.ROOT / counters.PAGE).read_text()
    assert counters.page(text) == text, "run tools/counters.py --write"
    assert counters.main([]) == 0
