"""Errors that users can act on are printed without a traceback."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from braid.cli.interrupts import INTERRUPTED
from braid.core.errors import BraidError
from braid.core.logging import log_to_terminal


class BraidGroup(TyperGroup):
    """Ends a command with the text of its error: exit code 1, or 130 after Ctrl-C.

    An error of the operating system (a missing file, a folder that may not be written) is the user's to mend,
    as a `BraidError` is. Anything else is a bug, and keeps its traceback.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line."""
        try:
            log_to_terminal()
            return super().main(*args, **kwargs)
        except BraidError as error:
            _end(str(error), 1)
        except OSError as error:
            _end(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _end("interrupted", INTERRUPTED)


def _end(text: str, code: int) -> NoReturn:
    typer.echo(text, err=True)
    sys.exit(code)
