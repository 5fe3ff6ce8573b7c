"""All lookup tables of a home."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from braid.core.errors import StoreError
from braid.core.times import now_micros
from braid.log.layout import check_name
from braid.stores.lookup.incoming import Rows
from braid.stores.lookup.reader import CACHE_BYTES
from braid.stores.lookup.settings import FILE, Settings, declare, evolve
from braid.stores.lookup.table import LookupTable
from braid.stores.lookup.writer import build

_NOTHING = pa.schema([])


class LookupStore:
    """Lookup tables under `<home>/lookup`, each in a folder of its own.

    Parameters
    ----------
    home_root
        The home's folder; `Home.root`.
    """

    def __init__(self, home_root: str | Path) -> None:
        self.root = Path(home_root).expanduser().absolute() / "lookup"

    def create(
        self, table: str, key: pa.Schema, value: pa.Schema = _NOTHING, ttl: int | None = None
    ) -> LookupTable:
        """A new table, or the one that exists, with this declaration's new columns and time to live.

        Parameters
        ----------
        table
            Letters, digits, `_`, `-` and `.`.
        key, value
            Columns by name and type. Old rows have NULL in columns that are added later.
        ttl
            Microseconds after which a row that was not written again is gone; None keeps it.
        """
        settings = declare(table, key, value, ttl)
        folder = self._folder(table)
        if not (folder / FILE).exists():
            build(folder, settings, [], _now_us(), fresh=True)
            return LookupTable(folder)
        found = LookupTable(folder)
        changed = evolve(table, found.settings, settings)
        if changed != found.settings:
            with LookupTable(folder) as writing:
                writing.writer().change(changed)
        return found

    def replace(self, table: str, settings: Settings, batches: Iterable[Rows], now_us: int) -> int:
        """Put a table of these rows in place of what is there, if anything; how many keys were written."""
        return build(self._folder(table), settings, batches, now_us, fresh=False)

    def open(
        self, table: str, columns: Sequence[str] | None = None, cache_bytes: int = CACHE_BYTES
    ) -> LookupTable:
        """An existing table.

        Parameters
        ----------
        table
            Its name.
        columns
            Value columns to read; all if None.
        cache_bytes
            Memory for rows that were looked up before.
        """
        if not self.has(table):
            tables = self.tables()
            near = difflib.get_close_matches(table, tables, n=1)
            raise StoreError(
                f"there is no lookup table {table!r}",
                where=str(self.root),
                hint=(f"did you mean {near[0]!r}? " if near else "")
                + (f"lookup tables: {', '.join(tables)}" if tables else "load one: braid lookup load"),
            )
        return LookupTable(self._folder(table), columns, cache_bytes)

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return (self._folder(table) / FILE).is_file()

    def tables(self) -> list[str]:
        """Names of all tables, sorted."""
        return sorted(path.parent.name for path in self.root.glob(f"*/{FILE}"))

    def _folder(self, table: str) -> Path:
        return self.root / check_name(table, "lookup table")


def _now_us() -> int:
    return now_micros()
