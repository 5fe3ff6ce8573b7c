import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.errors import CorruptError
from braid.eventtime.sketch import Distribution, sketch_bytes

BASE = 1_704_067_200_000_000
arrays = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=60).map(lambda v: np.array(v) + BASE)


@settings(max_examples=50, deadline=None)
@given(st.lists(arrays, min_size=1, max_size=4), st.floats(0, 1))
def test_small_sketches_are_exact_however_they_are_merged(parts: list[np.ndarray], rank: float) -> None:
    merged = Distribution(())
    for part in parts:
        merged = merged.merge(Distribution.of(part))
    values = np.sort(np.concatenate(parts))
    assert merged.count == len(values)
    assert merged.bounds() == (values[0], values[-1])
    assert merged.rank(values[0]) == 0
    assert merged.rank(values[-1] + 1) == pytest.approx(1)
    found = merged.quantile(rank)
    assert np.mean(values < found) <= rank + 1e-9
    assert found == values[-1] or np.mean(values <= found) > rank - 1e-9


def test_ranks_agree_with_rank() -> None:
    rng = np.random.default_rng(3)
    both = Distribution.of(BASE + rng.integers(0, 10**9, 5_000)).merge(Distribution.of(BASE + np.arange(99)))
    points = BASE + np.linspace(-1e6, 1.1e9, 40)
    assert both.ranks(points) == pytest.approx([both.rank(point) for point in points])


def test_merging_gives_the_same_every_time() -> None:
    # KLL's own merge flips coins, and would not.
    rng = np.random.default_rng(4)
    data = [sketch_bytes(rng.integers(0, 10**9, 20_000)) for _ in range(8)]
    found = set()
    for _ in range(5):
        merged = Distribution(())
        for part in data:
            merged = merged.merge(Distribution.from_bytes(part))
        found.add((merged.quantile(0.01), merged.rank(123_456), merged.mean()))
    assert len(found) == 1
    assert merged.quantile(0.01) == pytest.approx(10**7, rel=0.2)
    assert merged.mean() == pytest.approx(5e8, rel=0.01)


def test_the_empty_distribution() -> None:
    assert sketch_bytes(np.array([], dtype=np.int64)) == b""
    empty = Distribution.from_bytes(b"")
    assert (empty.count, empty.rank(5)) == (0, 0.0)


def test_damaged_bytes_are_named_as_such() -> None:
    with pytest.raises(CorruptError, match="sketch of event times"):
        Distribution.from_bytes(b"\x01\x02")
