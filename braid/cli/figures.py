"""Counters, rates and backlogs in words, for the live line, the last words and `braid status`."""

from __future__ import annotations

from collections.abc import Iterator

from braid.core.counters import Counters
from braid.home.status import InputStatus, Period, StageStatus


def count_words(counters: Counters) -> Iterator[str]:
    """Everything that was counted and is not 0, rows first."""
    yield f"{counters.rows_in:,} rows in, {counters.rows_out:,} out"
    whole = {
        "left out by the filter": counters.filtered,
        "bad records": counters.refused,
        "matches": counters.matches,
        "of them rescued from the log": counters.rescued,
        "matches lost, since one of their rows was late": counters.lost_matches,
        "matches lost, since one of their rows had come out padded after its wait": (
            counters.matches_after_padding
        ),
        "keys written": counters.keys_written,
        "rows superseded by newer ones": counters.superseded,
        "rows without a key": counters.null_keys,
    }
    yield from (f"{count:,} {words}" for words, count in whole.items() if count)
    for name, counted in counters.inputs.items():
        if counted.match_rate is not None:
            known = counted.matched + counted.unmatched
            yield f"{counted.match_rate:.2%} of {known:,} {name} rows with a match"
        if counted.padded_early:
            yield f"{counted.padded_early:,} {name} rows padded after their wait"
        for reason, count in counted.lost.items():
            if count:
                yield f"{count:,} {name} rows lost: {reason}"


def dead_words(counters: Counters) -> str:
    """Dead letters by reason; empty if there are none."""
    return ", ".join(f"{reason} {count:,}" for reason, count in counters.dead.items() if count)


def rate_words(stage: StageStatus) -> str:
    """Match rates by input: of the last minutes, and of all runs."""
    parts = []
    for name, rate in stage.match_rate.items():
        recent = [
            f"{share:.1%} in {_minutes(period)}"
            for period in stage.recent
            if (share := period.match_rate.get(name)) is not None
        ]
        parts.append(", ".join([f"{name} {rate:.1%}", *recent]))
    return "; ".join(parts)


def behind_words(status: InputStatus) -> str:
    """What an input has yet to read; empty if that is not known."""
    if status.rows_behind is None:
        return ""
    text = f"{'more than ' * status.more_behind}{status.rows_behind:,} rows"
    return text if status.behind_ms is None else f"{text}, {seconds_words(status.behind_ms)}"


def lag_words(status: InputStatus) -> str:
    """How far stream time is behind the clock, or why there is nothing to say."""
    lag = "" if status.lag_ms is None else seconds_words(status.lag_ms)
    quiet = status.doing if status.doing in ("idle", "ended", "paused") else ""
    return f"{lag} ({quiet})" if lag and quiet else lag or quiet


def speed_words(period: Period) -> str:
    """Rows per second, in and out."""
    return f"{period.rows_in_per_second:,.0f} / {period.rows_out_per_second:,.0f}"


def seconds_words(milliseconds: int) -> str:
    """A length of time."""
    seconds = milliseconds / 1000
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    if abs(seconds) < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _minutes(period: Period) -> str:
    if period.seconds < period.minutes * 60:
        return f"{period.seconds:.0f} s"
    return f"{period.minutes} min"
