"""Rows keep their addresses and values however blocks are put together, and whichever rows leave."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.positions import Position
from braid.core.times import MAX_TIME
from braid.kernels import blocks
from braid.kernels.blocks import BlockStore
from braid.kernels.minima import PAGE, Minima

SCHEMA = pa.schema([("text", pa.string()), ("number", pa.int64())])
ABSENT = 7
NO_ROWS = np.zeros(0, np.int64)


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "LARGE_ROWS", 6)
        patch.setattr(blocks, "SEGMENT_ROWS", 12)
        yield


def batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = list(range(first, first + rows))
    texts = [None if n % 7 == 0 else str(n) for n in numbers]
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string()), pa.array(numbers)], schema=SCHEMA)


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_rows_keep_values_and_addresses(seed: int) -> None:
    rng = random.Random(seed)
    store = BlockStore(SCHEMA)
    rows: list[tuple[Position, int, int]] = []
    """Block, row in it, and number of each row that should be there."""
    sizes: dict[Position, int] = {}
    following, commit = 0, 0
    for _ in range(rng.randint(1, 25)):
        commit += rng.randint(0, 2)
        chunk = 1 + max((one.chunk for one in sizes if one.commit == commit), default=-1)
        block, size = Position(commit, chunk), rng.choice((0, 1, 1, 2, 3, 9))
        assert store.append(block, batch(following, size)) == len(rows)
        sizes[block] = size
        rows += [(block, row, following + row) for row in range(size)]
        following += size
        if rng.random() < 0.6:
            store.tidy()
        if rng.random() < 0.3:
            wanted = np.array([rng.random() < 0.4 for _ in rows], np.bool_)
            left, stay = store.keep(wanted)
            assert not np.any(wanted & ~left)
            assert int(np.count_nonzero(left)) <= 2 * int(np.count_nonzero(wanted))
            rows = [row for row, kept in zip(rows, left, strict=True) if kept]
            assert int(np.count_nonzero(stay)) == store.blocks
        check(rng, store, rows, sizes)


def check(
    rng: random.Random, store: BlockStore, rows: list[tuple[Position, int, int]], sizes: dict[Position, int]
) -> None:
    assert store.rows == len(rows)
    some = np.array([rng.randrange(-1, len(rows)) for _ in range(rng.randint(0, 9))], np.int64)
    numbers = [None if row < 0 else rows[row][2] for row in some]
    picked = some[some >= 0]
    for copied in (blocks.COPIED_BYTES, 16, 0):
        # From all segments at once, or from one after the other.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "COPIED_BYTES", copied)
            for chosen in (picked, np.sort(picked)):
                wanted = [None if rows[row][2] % 7 == 0 else str(rows[row][2]) for row in chosen]
                assert store.gather(["text"], chosen)["text"].to_pylist() == wanted
            assert store.take("number", some, nullable=True).to_pylist() == numbers
    refs = store.refs(picked)
    found = [(Position(c, k), r) for c, k, r in zip(*(part.tolist() for part in refs), strict=True)]
    assert found == [rows[row][:2] for row in picked]
    assert store.number(*refs).tolist() == picked.tolist()
    held = np.array([rng.random() < 0.7 for _ in range(store.blocks)], np.bool_)
    ids = [block for block, kept in zip(store.ids, held, strict=True) if kept]
    assert [Position(*one) for one in store.positions(held).tolist()] == ids
    assert store.extent(held) == (len(ids), ids[0].commit if ids else None)
    here = {row[:2]: number % 3 for number, row in enumerate(rows)}
    flags = np.array([number % 3 for number in range(len(rows))], np.uint8)
    whole = [here.get((block, row), ABSENT) for block in ids for row in range(sizes[block])]
    assert store.whole(flags, ABSENT, held).tolist() == whole
    mine = np.array([number for number, row in enumerate(rows) if row[0] in set(ids)], np.int64)
    assert np.array(whole, np.uint8)[store.whole_number(mine, held)].tolist() == flags[mine].tolist()


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_segments_that_cannot_be_copied_at_once_give_the_same_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    store = BlockStore(SCHEMA)
    for commit in range(int(rng.integers(1, 12))):
        store.append(Position(commit, 0), batch(store.rows, int(rng.choice([0, 1, 3, 9]))))
        if rng.random() < 0.4:
            store.tidy()
    rows = rng.integers(-1, store.rows, int(rng.integers(0, 2 * store.rows + 2))) if store.rows else NO_ROWS
    some = rows[rows >= 0]
    requests = [(rows, True), (some, False), (np.sort(some), False), (np.full(3, -1), True)]
    expected = [store.gather(SCHEMA.names, which, nullable=nullable) for which, nullable in requests]
    assert [one["number"].to_pylist() for one in expected[:2]] == [
        [None if row < 0 else row for row in rows.tolist()],
        some.tolist(),
    ]
    for bound in (0, int(rng.integers(1, 400))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "COMBINED_BYTES", bound)
            for (which, nullable), wanted in zip(requests, expected, strict=True):
                assert store.gather(SCHEMA.names, which, nullable=nullable) == wanted


def test_more_text_than_arrow_can_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "COPIED_BYTES", blocks.COMBINED_BYTES)
    text = pa.array([f"{row:0{1 << 19}d}" for row in range(64)])
    store = BlockStore(pa.schema([("text", text.type)]))
    for commit in range(80):
        # The blocks share their memory, but Arrow would have to copy 2.5 GB.
        store.append(Position(commit, 0), pa.RecordBatch.from_arrays([text], names=["text"]))
    rows = np.arange(store.rows - 1, 0, -101)
    assert [int(one[-2:]) for one in store.take("text", rows).to_pylist()] == (rows % 64).tolist()


def test_small_blocks_are_few_arrays_and_are_copied_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LARGE_ROWS", 4096)
    monkeypatch.setattr(blocks, "SEGMENT_ROWS", 32_768)
    copied = 0
    concat = pa.concat_arrays

    def count(parts: list[pa.Array]) -> pa.Array:
        nonlocal copied
        copied += sum(map(len, parts))
        return concat(parts)

    monkeypatch.setattr(pa, "concat_arrays", count)
    store, most = BlockStore(pa.schema([("number", pa.int64())])), 0
    for number in range(2_000):
        rows = pa.RecordBatch.from_arrays([pa.array(np.arange(75) + 75 * number)], names=["number"])
        store.append(Position(number, 0), rows)
        store.tidy()
        most = max(most, store.segments)
    assert most <= 12
    assert copied < 25 * store.rows
    large = pa.RecordBatch.from_arrays([pa.array(np.arange(8_192))], names=["number"])
    before = copied
    for number in range(20):
        store.append(Position(5_000 + number, 0), large)
        store.tidy()
    assert copied == before


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_minima_find_every_row_below_a_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    minima, values = Minima(), np.zeros(0, np.int64)
    gone = np.zeros(0, np.bool_)
    for _ in range(int(rng.integers(1, 12))):
        more = rng.integers(0, 1000, int(rng.choice([0, 1, 100, PAGE, 3 * PAGE + 5])))
        minima.extend(more)
        values, gone = np.append(values, more), np.append(gone, np.zeros(len(more), np.bool_))
        limit = int(rng.integers(0, 1000))
        leaving = minima.below(limit, values, gone.__getitem__)
        assert leaving.tolist() == np.flatnonzero(~gone & (values < limit)).tolist()
        gone[leaving] = True
        assert minima.least() == int(values[~gone].min(initial=MAX_TIME))
        other = np.flatnonzero(~gone & (rng.random(len(values)) < 0.1))
        gone[other] = True
        if len(other):
            minima.renew(np.unique(other // PAGE), values, gone.__getitem__)
        assert minima.least() == int(values[~gone].min(initial=MAX_TIME))
