"""Notes on rows, on their way to a sink."""

from __future__ import annotations

import pyarrow as pa

from braid.core.columns import NOTE
from braid.core.counters import Counters
from braid.engine.notes import DROP, KEEP, Notes, counts_note, note_array


def test_notes_are_taken_off_the_rows() -> None:
    notes = [None, "-\x1fbad\x1fwhy\x1fraw \x1f text", "+\x1fodd\x1f\x1f{}", counts_note(Counters(matches=1))]
    batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3, 4], NOTE: notes})
    taken = Notes()
    assert [row for rows in taken.strip(iter([batch])) for row in rows.to_pylist()] == [{"a": 1}, {"a": 3}]
    assert taken.counts == [Counters(matches=1)]
    assert taken.reasons() == {"bad": 1, "odd": 1}
    assert [column.to_pylist() for column in taken.columns()] == [
        ["bad", "odd"],
        ["why", ""],
        ["raw \x1f text", "{}"],
    ]


def test_note_arrays_read_back() -> None:
    array = note_array(DROP, pa.array(["late"]), pa.array(["left"]), pa.array(['{"a":1}']))
    taken = Notes()
    assert list(taken.strip(iter([pa.RecordBatch.from_pydict({"a": [1], NOTE: array})]))) == []
    assert taken.reasons() == {"late": 1}
    assert array[0].as_py().startswith(DROP)


def test_letters_that_another_stage_lists_are_left_out_and_their_rows_all_the_same() -> None:
    reasons = ["malformed_json", "missing_field", "missing_field", "invalid_time"]
    details = ["", "k", "other", "in the future"]
    texts = pa.concat_arrays(
        [
            note_array(DROP, pa.array(reasons[:3]), pa.array(details[:3]), pa.array(["x"] * 3)),
            note_array(KEEP, pa.array(reasons[3:]), pa.array(details[3:]), pa.array(["x"])),
            pa.array([None], pa.string()),
        ]
    )
    batch = pa.RecordBatch.from_pydict({"a": pa.array(range(5)), NOTE: texts})
    for lists, wanted in (
        (None, {"malformed_json": 1, "missing_field": 2, "invalid_time": 1}),
        ([("missing_field", "k")], {"missing_field": 1}),
        ([("invalid_time", None)], {"invalid_time": 1}),
        ([], {}),
    ):
        notes = Notes(lists)
        (rows,) = notes.strip(iter([batch]))
        assert rows.to_pydict() == {"a": [3, 4]}
        assert (notes.reasons(), notes.dropped, notes.rows) == (wanted, 3, 5)
