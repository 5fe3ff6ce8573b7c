"""The log: a folder of categories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from braid.core.columns import TIME
from braid.core.errors import LogError
from braid.core.owner import Owner
from braid.log.category import Category, load
from braid.log.layout import CATEGORY_FILE, COMMITS, DATA, TEMP_PREFIX, check_name
from braid.log.schema import declare, evolve
from braid.log.storage import Storage


class Log:
    """Categories under one root.

    Parameters
    ----------
    root
        A path or a URI (`s3://...`, `hdfs://...`); with `filesystem`, a path on it.
    filesystem
        Where `root` is, if not on the local disk.
    """

    def __init__(self, root: str | Path, filesystem: fs.FileSystem | None = None) -> None:
        self.storage = Storage.open(root, filesystem)

    def create(
        self,
        name: str,
        schema: pa.Schema | None = None,
        shards: int = 8,
        time_columns: Sequence[str] = (TIME,),
        raw: bool = False,
        owner: Owner | None = None,
    ) -> Category:
        """A new category, or the one that exists with this schema's new columns added to it.

        Parameters
        ----------
        name
            Letters, digits, `_`, `-` and `.`.
        schema
            Columns by name and type; not needed for a raw category. With a column `__hash` (int64) rows
            are sharded and sorted by it, else they stay in arrival order.
        shards
            How many ranges of hashes to split rows into. May change: old rows are read all the same.
        time_columns
            Columns with event times: int64 microseconds, timestamps or dates.
        raw
            Whether rows are JSON texts in one string column `value`.
        owner
            The application that writes it, if it is not open to all: nobody else may be then.
        """
        storage = self.storage.within(check_name(name, "category"))
        settings = declare(name, schema, shards, time_columns, raw, owner)
        for folder in (COMMITS, DATA):
            storage.make_folder(folder)
        if storage.create(CATEGORY_FILE, settings.seal()):
            return Category(name, storage, settings)
        with storage.lock():
            stored = load(storage)
            settings = evolve(name, stored, settings)
            if settings != stored:
                storage.replace(CATEGORY_FILE, settings.seal())
        return Category(name, storage, settings)

    def draft(
        self, name: str, schema: pa.Schema, *, shards: int, time_columns: Sequence[str] = ()
    ) -> Category:
        """An existing category as it would be with other columns: rows may be written, nothing is changed."""
        storage = self.storage.within(check_name(name, "category"))
        return Category(name, storage, declare(name, schema, shards, time_columns, raw=False))

    def has(self, name: str) -> bool:
        """Whether a category exists."""
        return self.storage.within(check_name(name, "category")).exists(CATEGORY_FILE)

    def open(self, name: str) -> Category:
        """An existing category."""
        storage = self.storage.within(check_name(name, "category"))
        if not storage.exists(CATEGORY_FILE):
            raise LogError(
                f"category {name!r} does not exist",
                where=storage.root,
                hint=f"existing categories: {', '.join(self.categories()) or 'none'}",
            )
        return Category(name, storage, load(storage))

    def categories(self) -> list[str]:
        """Names of all categories, sorted."""
        return [
            name
            for name in self.storage.folders()
            if not name.startswith(TEMP_PREFIX) and self.storage.exists(f"{name}/{CATEGORY_FILE}")
        ]

    def drop(self, name: str) -> None:
        """Remove a category with all its rows; nobody may be writing to it or reading from it."""
        self.open(name)
        self.storage.remove_folder(name)
