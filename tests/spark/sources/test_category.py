"""Categories as sources."""

from __future__ import annotations

import pyarrow as pa

from braid.home.paths import Home
from braid.spark.sources.category import CategoryStreamReader, Piece


def test_the_category_source_reads_every_chunk_once(home: Home) -> None:
    category = home.log().create("in", raw=True)
    for start in range(0, 50, 10):
        category.append(pa.table({"value": [str(n) for n in range(start, start + 10)]}), chunk_rows=3)
    reader = CategoryStreamReader(home.log_root, "in", ("value",), max_rows=7, tasks=2)
    offset, seen, batches = reader.initialOffset(), [], 0
    while (end := reader.latestOffset(offset, None)) != offset:
        pieces = reader.partitions(offset, end)
        assert all(isinstance(piece, Piece) for piece in pieces)
        rows = [v for p in pieces for b in reader.read(p) for v in b["value"].to_pylist()]
        assert 1 <= len(rows) <= 7
        seen += rows
        offset, batches = end, batches + 1
    assert seen == [str(n) for n in range(50)]
    assert reader.partitions(offset, offset) == []
    reader.prepareForTriggerAvailableNow()
    category.append(pa.table({"value": ["later"]}))
    assert reader.latestOffset(offset, None) == offset
