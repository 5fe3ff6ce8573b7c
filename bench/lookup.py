from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from braid.stores.lookup import LookupStore, LookupTable

BATCH = 65_536
KEYS = {
    "int64": lambda ids: pa.array(ids),
    "string": lambda ids: pa.array(np.char.add("user-", ids.astype("U"))),
}


def rate(rows: int, work: Callable[[], object]) -> str:
    start = time.perf_counter()
    work()
    return f"{rows / (time.perf_counter() - start):>12,.0f}"


def write(table: LookupTable, rows: pa.Table) -> None:
    for number, batch in enumerate(rows.to_batches(BATCH)):
        table.upsert(batch, writer="bench", batch_id=number, now_us=0)


def read(table: LookupTable, keys: pa.Array) -> None:
    for start in range(0, len(keys), BATCH):
        assert table.get([keys.slice(start, BATCH)], 0).found.all()


def measure(kind: str, rows: int) -> str:
    make, random = KEYS[kind], np.random.default_rng(1)
    ids = random.permutation(rows)
    values = pa.table({"key": make(ids), "name": KEYS["string"](ids % 1000), "score": random.random(rows)})
    probes = make(random.permutation(rows))
    with tempfile.TemporaryDirectory() as home:
        store = LookupStore(home)
        fields = list(values.schema)
        with store.create("t", pa.schema(fields[:1]), pa.schema(fields[1:])) as table:
            written = rate(rows, lambda: write(table, values))
            table.writer().compact()
        with store.open("t", cache_bytes=1 << 30) as table:
            cold, warm = (rate(rows, lambda: read(table, probes)) for _ in range(2))
    return f"{kind + ' key':<34} {written} {cold} {warm}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Write a lookup table, and look up all its keys in random order."
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    print(f"{rows:,} rows, {BATCH:,} per batch   {'write/s':>12} {'cold get/s':>12} {'warm get/s':>12}")
    for kind in KEYS:
        print(measure(kind, rows))


if __name__ == "__main__":
    main()
