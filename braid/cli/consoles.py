"""How commands print with Rich: texts as they are."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console
from rich.table import Table


class PlainConsole(Console):
    """A console to which no text is markup: rows, names and errors may hold `[...]` and `:...:`."""

    def __init__(self, stream: TextIO | None = None, width: int | None = None) -> None:
        super().__init__(file=stream, width=width, markup=False, emoji=False, highlight=False)


def print_table(table: Table, stream: TextIO | None = None) -> None:
    """Print a table, to the standard output by default: as wide as the terminal, or 200 columns elsewhere."""
    PlainConsole(stream, None if sys.stdout.isatty() else 200).print(table)
