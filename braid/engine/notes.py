"""Notes: how dead letters and metrics travel with the rows of a query to its sink.

A query has one sink, and only what reaches the sink is exactly once. So every row has one more text column,
NULL for ordinary rows. A note says what is wrong with its row or, on a row of its own, what a join counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.columns import NOTE
from braid.core.counters import Counters, from_json, to_json

SEPARATOR = "\x1f"
"""Between flag, reason, detail and raw record of a note."""
KEEP = "+"
"""Flag of a row that goes on although something is wrong with it."""
DROP = "-"
"""Flag of a row that only its note survives."""
COUNTS = "#"
"""Flag of a note that holds counters as JSON in its detail."""
MISSING_FIELD = "missing_field"
"""Reason of a record that lacks a column that a stage cannot do without, which the detail names."""
FILE = "@"
"""Flag of a note that holds the entry of a file which a worker has written itself."""
STATE = "%"
"""Flag of a note that holds what a shard hands over for a savepoint."""


def note_array(flag: str, reasons: pa.Array, details: pa.Array, raw: pa.Array) -> pa.Array:
    """Notes from their parts."""
    return pc.binary_join_element_wise(
        pa.repeat(flag, len(reasons)), reasons, details, raw, SEPARATOR, null_handling="replace"
    )


def text_note(flag: str, text: str) -> str:
    """The note of counters, of a file or of a state, in JSON."""
    return SEPARATOR.join([flag, "", text, ""])


def counts_note(counts: Counters) -> str:
    """The note of what a step has counted."""
    return text_note(COUNTS, json.dumps(to_json(counts), separators=(",", ":")))


@dataclass
class Notes:
    """Collects the notes of one task.

    Parameters
    ----------
    lists
        Which letters are kept: reasons, each with a detail or None for any. None keeps all.
    """

    lists: Sequence[tuple[str, str | None]] | None = None
    letters: list[tuple[pa.Array, pa.Array, pa.Array]] = field(default_factory=list)
    counts: list[Counters] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    rows: int = 0
    dropped: int = 0
    """Rows that only their letters are left of."""

    def strip(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows to store, without their notes, which are kept here."""
        for batch in batches:
            notes = batch.column(NOTE)
            self.rows += batch.num_rows
            rows = batch.drop_columns([NOTE])
            if notes.null_count < len(notes):
                rows = rows.filter(self._take(notes))
            if rows.num_rows:
                yield rows

    def _take(self, notes: pa.Array) -> pa.Array:
        """Keep the notes; which rows go on."""
        noted = notes.is_valid()
        parts = pc.split_pattern(notes.drop_null(), SEPARATOR, max_splits=3)
        flag, reason, detail, raw = (pc.list_element(parts, index) for index in range(4))
        letter = pc.is_in(flag, pa.array([KEEP, DROP]))
        self.dropped += pc.sum(pc.equal(flag, DROP)).as_py() or 0
        if self.lists is not None:
            letter = pc.and_(letter, self._listed(reason, detail))
        if pc.any(letter).as_py():
            self.letters.append((reason.filter(letter), detail.filter(letter), raw.filter(letter)))
        counted = detail.filter(pc.equal(flag, COUNTS)).to_pylist()
        self.counts += [from_json(json.loads(text)) for text in counted]
        self.files += detail.filter(pc.equal(flag, FILE)).to_pylist()
        self.states += detail.filter(pc.equal(flag, STATE)).to_pylist()
        return pc.replace_with_mask(pc.invert(noted), noted, pc.equal(flag, KEEP))

    def _listed(self, reason: pa.Array, detail: pa.Array) -> pa.Array:
        kept = pa.array(np.zeros(len(reason), np.bool_))
        for wanted, of in self.lists or ():
            which = pc.equal(reason, wanted)
            kept = pc.or_(kept, which if of is None else pc.and_(which, pc.equal(detail, of)))
        return kept

    def reasons(self) -> dict[str, int]:
        """How many letters there are for each reason."""
        total: dict[str, int] = {}
        for reason, _, _ in self.letters:
            for entry in reason.value_counts().to_pylist():
                total[entry["values"]] = total.get(entry["values"], 0) + entry["counts"]
        return total

    def columns(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Reasons, details and raw records of all letters."""
        first, second, third = (pa.concat_arrays(list(part)) for part in zip(*self.letters, strict=True))
        return first, second, third
