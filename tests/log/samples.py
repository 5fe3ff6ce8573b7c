"""Rows and filesystems for the tests of the log."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from pyarrow import fs

from braid.log import Log, Reader, hash_rows
from braid.log.category import Category

SCHEMA = pa.schema(
    [("__hash", pa.int64()), ("__time", pa.int64()), ("__key0", pa.string()), ("n", pa.int32())]
)


def rows(count: int, seed: int = 0, keys: int = 50) -> pa.Table:
    rng = np.random.default_rng(seed)
    key = pa.array([f"key{k}" for k in rng.integers(0, keys, count)], pa.string())
    time = pa.array(rng.integers(0, 10**9, count), mask=rng.random(count) < 0.1)
    n = pa.array(rng.integers(0, 2**31, count, dtype=np.int32))
    return pa.table([pa.array(hash_rows([key])), time, key, n], schema=SCHEMA)


def typed(log: Log, name: str = "app.left", shards: int = 4) -> Category:
    return log.create(name, SCHEMA, shards=shards)


def everything(reader: Reader) -> pa.Table:
    """All rows of a log that can be read, in no order."""
    last = reader.latest()
    batches = [b for n in range(reader.first, last + 1) for b in reader.rows(n)]
    return pa.Table.from_batches(batches, reader.category.schema)


def multiset(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


class Counting(fs.FileSystemHandler):
    """A filesystem that is not local to the log, over a local folder, and counts what it is asked for."""

    def __init__(self, root: str, renames_over: bool = True) -> None:
        self.renames_over = renames_over
        self.base = fs.SubTreeFileSystem(root, fs.LocalFileSystem())
        self.calls: Counter[str] = Counter()

    def filesystem(self) -> fs.PyFileSystem:
        return fs.PyFileSystem(self)

    def get_type_name(self):
        return "counting"

    def normalize_path(self, path):
        return self.base.normalize_path(path)

    def get_file_info(self, paths):
        self.calls["look"] += len(paths)
        return self.base.get_file_info(paths)

    def get_file_info_selector(self, selector):
        self.calls["list"] += 1
        return self.base.get_file_info(selector)

    def create_dir(self, path, recursive):
        self.base.create_dir(path, recursive=recursive)

    def delete_dir(self, path):
        self.base.delete_dir(path)

    def delete_dir_contents(self, path, missing_dir_ok=False):
        self.base.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self):
        raise NotImplementedError

    def delete_file(self, path):
        self.base.delete_file(path)

    def move(self, src, dest):
        if not self.renames_over and self.base.get_file_info(dest).type == fs.FileType.File:
            raise OSError(f"cannot rename {src}: {dest} is there")
        self.base.move(src, dest)

    def copy_file(self, src, dest):
        self.base.copy_file(src, dest)

    def open_input_stream(self, path):
        self.calls["read"] += 1
        return self.base.open_input_stream(path)

    def open_input_file(self, path):
        self.calls["read"] += 1
        return self.base.open_input_file(path)

    def open_output_stream(self, path, metadata):
        self.calls["write"] += 1
        return self.base.open_output_stream(path)

    def open_append_stream(self, path, metadata):
        raise NotImplementedError
