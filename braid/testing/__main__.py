"""Show what window, estimator and late lookups do to a join: `python -m braid.testing`."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

from braid.core.config import AppConfig
from braid.core.times import HOUR, MINUTE
from braid.testing.outcome import Simulation
from braid.testing.simulation import simulate
from braid.testing.workloads import SEARCH_BOUNDS, search_sessions

ROWS, DAYS, INTERVAL = 200_000, 2, 10 * MINUTE

SETTINGS: tuple[tuple[str, tuple[int, int], dict[str, object]], ...] = (
    ("the paper's scheme", SEARCH_BOUNDS, {"stream_time": "ascending", "late_lookup": False}),
    ("calibrated stream time", SEARCH_BOUNDS, {"late_lookup": False}),
    ("... and late lookups", SEARCH_BOUNDS, {"percentile": 1}),
    ("... as by default: percentile 5", SEARCH_BOUNDS, {}),
    ("... and slack 30 min", SEARCH_BOUNDS, {"slack": "30 minutes"}),
    ("... and a 1 h window", (-1 * HOUR, 30 * MINUTE), {"slack": "30 minutes"}),
)
"""Name, window and options of each run."""


def main() -> None:
    """Simulate a join of client and server events under a few settings, and print a table."""
    console = Console(width=120)
    left, right = search_sessions(ROWS, DAYS)
    table = Table(
        title=f"{len(left):,} client rows joined with {len(right):,} server rows of {DAYS} days, "
        "[-3 h, +30 min] unless said otherwise",
        caption="Match rates are shares of the left rows; the batch join is DuckDB's, with the same window. "
        "Accuracy: rows not behind the left stream time when they arrive.",
    )
    table.add_column("setting")
    for name in (
        "match rate",
        "of batch",
        "missed",
        "rescued",
        "window rows",
        "pending",
        "accuracy",
        "output",
    ):
        table.add_column(name, justify="right")
    started = time.perf_counter()
    with console.status("simulating"):
        for name, bounds, options in SETTINGS:
            settings = AppConfig.model_validate({"shards": 1, **options})
            table.add_row(name, *_figures(simulate(left, right, bounds, settings, interval=INTERVAL)))
    console.print(table)
    rows = len(SETTINGS) * (len(left) + len(right))
    seconds = time.perf_counter() - started
    console.print(f"{rows:,} rows went through log, pacing and kernels in {seconds:.0f} s.")


def _figures(found: Simulation) -> tuple[str, ...]:
    return (
        f"{100 * found.match_rate:.3f}%",
        f"{100 * found.recall:.3f}%",
        f"{found.missed:,}",
        f"{found.rescued:,}",
        f"{found.peak_window:,}",
        f"{found.peak_pending:,}",
        f"{found.left.accuracy:.2f}%",
        f"{found.output_delay_percentile(50) / MINUTE:.0f} min",
    )


if __name__ == "__main__":
    main()
