"""The counters of the package, as the table of docs/metrics.md shows them.

`python tools/counters.py` fails if the table is out of date; `--write` brings it up to date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from braid.core.counters import Declared, declared  # noqa: E402  the package lies beside the tools
from tools.layers import filled  # noqa: E402

PAGE = Path("docs/metrics.md")
BEGIN = "<!-- counters: written by tools/counters.py -->"
END = "<!-- end of counters -->"


def page(text: str) -> str:
    """The page with its table as the code has it."""
    return filled(text, table(), BEGIN, END)


def table() -> str:
    """All counters, as a Markdown table; those of an input are under `inputs` and its name."""
    head = ["| name | kind | merges by | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *map(_row, declared())])


def _row(one: Declared) -> str:
    name = f"inputs.*.{one.name}" if one.of_input else one.name
    return f"| `{name}` | {one.kind} | {one.merge} | {one.meaning} |"


def main(arguments: list[str] | None = None) -> int:
    """Check the table, or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"bring the table in {PAGE} up to date")
    path = ROOT / PAGE
    text = path.read_text()
    if parser.parse_args(arguments).write:
        path.write_text(page(text))
        return 0
    if text == page(text):
        return 0
    sys.stdout.write(f"{PAGE}: the table is out of date; run python tools/counters.py --write\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
