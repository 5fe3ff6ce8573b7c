"""Errors that users can act on are printed without a traceback."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from braid.core.errors import BraidError
from braid.core.logging import log_to_terminal


class BraidGroup(TyperGroup):
    """Ends a command with the text of its `BraidError` and exit code 1."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line."""
        try:
            log_to_terminal()
            return super().main(*args, **kwargs)
        except BraidError as error:
            typer.echo(str(error), err=True)
            sys.exit(1)
