"""The order in which the chunks of a commit are read: tasks have written them side by side."""

from __future__ import annotations

from collections.abc import Sequence

from braid.core.columns import TIME
from braid.eventtime.arrival import ChunkOrder, in_order
from braid.log.records import FileEntry


def chunk_order(entries: Sequence[FileEntry], order: ChunkOrder) -> list[int] | None:
    """The order of chunks; None for rows that no join reads.

    Spark packs files into tasks by size, and tasks run side by side, so that within a micro-batch the order
    of arrival is lost anyway. By time, a backlog comes to the join as a stream would, not as late rows.
    """
    chunks = [chunk for entry in entries for chunk in entry.chunks]
    if not all(TIME in chunk.times for chunk in chunks):
        return None
    return in_order(order, [chunk.times[TIME] for chunk in chunks])
