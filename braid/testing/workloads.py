"""The application of the paper's evaluation, in small: what clients did with a search server's answers."""

from __future__ import annotations

import numpy as np

from braid.core.times import DAY, HOUR, MINUTE
from braid.testing.streams import MONDAY, ClientLike, ServerLike, Stream

SEARCH_BOUNDS = (-3 * HOUR, 30 * MINUTE)
"""The window of the query in section 7.1 of the paper."""


def search_sessions(
    rows: int = 4_000_000,
    days: int = 7,
    *,
    start: int = MONDAY,
    unmatched: float = 0.058,
    returning: float = 0.026,
    away: int = 5 * HOUR,
    seed: int = 0,
) -> tuple[Stream, Stream]:
    """Client-like left and server-like right stream, as (left, right): what arrives within so many days.

    Parameters
    ----------
    rows
        Rows in both streams together, roughly.
    days, start
        How long the clock runs, and from when.
    unmatched
        Share of client rows that refer to no answer of the server.
    returning, away
        Share of client rows that come from a user who returns to the results after a mean of `away`, and so
        often outside of the join's window; the others react within minutes.
    seed
        The same streams for the same seed.
    """
    server = ServerLike(rows // 2, start, days * DAY).generate(seed)
    back = round(rows / 2 * returning)
    client = merged(
        ClientLike(rows // 2 - back, unmatched).generate(server, seed),
        ClientLike(back, unmatched, reaction=away).generate(server, seed + 1),
    )
    end = start + days * DAY
    return arrived_before(client, end), arrived_before(server, end)


def merged(one: Stream, other: Stream) -> Stream:
    """The rows of two streams in order of arrival."""
    arrival = np.concatenate([one.arrival_time, other.arrival_time])
    order = np.argsort(arrival, kind="stable")
    happened = np.concatenate([one.event_time, other.event_time])
    return Stream(happened[order], arrival[order], np.concatenate([one.key, other.key])[order])


def arrived_before(stream: Stream, time: int) -> Stream:
    """The rows that arrived before some wall-clock time."""
    return stream.between(0, int(np.searchsorted(stream.arrival_time, time)))
