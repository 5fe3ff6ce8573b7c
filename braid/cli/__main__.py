"""The `braid` command, which is `python -m braid.cli`, too."""

from __future__ import annotations

import sys

from braid.cli.interrupts import INTERRUPTED


def main() -> None:
    """Run the command line. Ctrl-C while modules are imported, which takes a second, gives no traceback."""
    try:
        from braid.cli.main import app

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
