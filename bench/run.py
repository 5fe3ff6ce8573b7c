"""`make bench`: see `bench/README.md`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from suite.cli import main

if __name__ == "__main__":
    main()
