"""What an update of a running application may change, as data (section 4.2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Verdict(StrEnum):
    """What happens to state and in-flight data, from best to worst."""

    KEPT = "kept"
    REPLAYED = "replayed"
    REFUSED = "refused"

    @property
    def exit_code(self) -> int:
        """The exit code of `braid diff`."""
        return {Verdict.KEPT: 0, Verdict.REPLAYED: 3, Verdict.REFUSED: 1}[self]


class Way(IntEnum):
    """What is done with a stage before it goes on as another one, from least to most."""

    GO_ON = 0
    """Nothing."""
    FINISH = 1
    """The old program finishes a micro-batch that is under way. What will not run any more takes in all."""
    CARRY = 2
    """It hands over its state in a savepoint, from which the new one begins another generation."""
    SETTLE = 3
    """The same, after it has decided rows that have a match."""
    CLOSE = 4
    """It closes all windows, as a drain does; the new one goes on as after a drain."""
    SLICE_AGAIN = 5
    """The same, and what the inputs have given so far is sliced by the new program."""
    ANEW = 6
    """It takes in what there is and closes all windows; the new one begins with the start of its inputs."""

    @property
    def closes(self) -> bool:
        """Whether rows in flight are decided before their time."""
        return self >= Way.CLOSE


@dataclass(frozen=True)
class UpdateRule:
    """The verdict on one kind of change, why, what is done for it, and what else one could do."""

    verdict: Verdict
    reason: str
    alternatives: tuple[str, ...] = ()
    way: Way = Way.GO_ON


_KEEP_TYPE = (
    "CAST the expression to the type that it had",
    "give the column a new name",
    "give the view a new name and drop the old one, which discards rows in flight",
)
_NEW_VIEW = (
    "create a view with a new name beside the old one, and drop the old one when the new one has caught up",
    "give the view a new name and drop the old one at once, which discards rows in flight",
)

UPDATE_RULES: dict[str, UpdateRule] = {
    "application.renamed": UpdateRule(
        Verdict.REFUSED,
        "categories and state are named after the application",
        ("keep the name", "deploy it as a second application, and delete the first when it has caught up"),
    ),
    "option.changed": UpdateRule(Verdict.KEPT, "options take effect at the restart"),
    "shards.changed": UpdateRule(
        Verdict.KEPT, "joins go on with other shards, from a savepoint: blocks are sorted by hash"
    ),
    "stream_time.changed": UpdateRule(
        Verdict.KEPT, "stream time stays where it is, and the new estimator moves it from there"
    ),
    "retention.shortened": UpdateRule(
        Verdict.KEPT, "late rows find partners only as far back as the log goes"
    ),
    "join.added": UpdateRule(Verdict.KEPT, "nothing that runs is touched"),
    "join.removed": UpdateRule(Verdict.KEPT, "its rows in flight do not come out, unless it comes back"),
    "join.type": UpdateRule(
        Verdict.KEPT,
        "rows in flight know whether they have had a match, and come out padded by the new type",
        way=Way.CARRY,
    ),
    "join.type_operands": UpdateRule(
        Verdict.REPLAYED,
        "expressions are evaluated after the join now, so this input is sliced again",
        _NEW_VIEW,
        Way.SLICE_AGAIN,
    ),
    "join.match": UpdateRule(
        Verdict.KEPT,
        "left rows that have a match are done, with the best one so far; the others go on in the new way",
        way=Way.SETTLE,
    ),
    "join.kind": UpdateRule(
        Verdict.REPLAYED,
        "each kind of join keeps other rows, so windows are closed; new rows find older ones in the log",
        _NEW_VIEW,
        Way.CLOSE,
    ),
    "join.within_widened": UpdateRule(
        Verdict.REPLAYED,
        "neighbours that were too far away have been forgotten, so series end, and begin anew",
        _NEW_VIEW,
        Way.CLOSE,
    ),
    "join.within_narrowed": UpdateRule(
        Verdict.KEPT, "rows that are too far away now are forgotten", way=Way.FINISH
    ),
    "join.consume": UpdateRule(
        Verdict.KEPT,
        "left rows that have a match are done; right rows in the window are free unless they were taken",
        way=Way.SETTLE,
    ),
    "join.unmatched": UpdateRule(
        Verdict.KEPT, "rows that wait come out when the new rule says so", way=Way.FINISH
    ),
    "lookup.changed": UpdateRule(Verdict.KEPT, "rows from now on are looked up in the new way"),
    "join.keys": UpdateRule(
        Verdict.REPLAYED,
        "blocks are hashed, sorted and sharded by the key, so both inputs are sliced again",
        _NEW_VIEW,
        Way.SLICE_AGAIN,
    ),
    "join.time": UpdateRule(
        Verdict.REPLAYED,
        "blocks and stream time hold the old event time, so this input is sliced again",
        _NEW_VIEW,
        Way.SLICE_AGAIN,
    ),
    "join.input": UpdateRule(
        Verdict.REFUSED,
        "blocks of the old input would be joined with rows of the new one",
        ("publish the new data into the old source", *_NEW_VIEW),
    ),
    "join.window_widened": UpdateRule(
        Verdict.KEPT, "older blocks are looked up in the log, as far back as it goes", way=Way.FINISH
    ),
    "join.window_narrowed": UpdateRule(
        Verdict.KEPT, "rows that fall out of the window are forgotten", way=Way.FINISH
    ),
    "join.window_moved": UpdateRule(
        Verdict.KEPT,
        "older blocks are looked up in the log, and rows that fall out of the window are forgotten",
        way=Way.FINISH,
    ),
    "join.residual": UpdateRule(Verdict.KEPT, "the blocks hold all of its operands", way=Way.FINISH),
    "join.residual_operands": UpdateRule(
        Verdict.REPLAYED,
        "blocks in the window lack an operand, and NULL would never match, so inputs are sliced again",
        _NEW_VIEW,
        Way.SLICE_AGAIN,
    ),
    "join.live_added": UpdateRule(
        Verdict.REPLAYED,
        "blocks in the window lack the flag that says whether a row can match, so inputs are sliced again",
        _NEW_VIEW,
        Way.SLICE_AGAIN,
    ),
    "join.live_changed": UpdateRule(Verdict.KEPT, "rows in flight keep the answer of the old predicate"),
    "join.live_removed": UpdateRule(Verdict.KEPT, "rows in flight keep the answer of the old predicate"),
    "column.added": UpdateRule(Verdict.KEPT, "rows that were written before have NULL there"),
    "column.dropped": UpdateRule(Verdict.KEPT, "columns are matched by name, so the others stay as they are"),
    "column.reordered": UpdateRule(Verdict.KEPT, "columns are matched by name"),
    "column.changed": UpdateRule(Verdict.KEPT, "rows that were written before keep the old value"),
    "column.type": UpdateRule(
        Verdict.REFUSED, "what is stored has one type per column, and older rows have the old one", _KEEP_TYPE
    ),
    "input.column_type": UpdateRule(
        Verdict.REPLAYED,
        "blocks hold one type per column, so this input is sliced again",
        _KEEP_TYPE[:2],
        Way.SLICE_AGAIN,
    ),
    "column.retyped": UpdateRule(Verdict.KEPT, "they are stored in a new place, with types of its own"),
    "filter.changed": UpdateRule(Verdict.KEPT, "rows in flight have passed the old filter"),
    "input.source": UpdateRule(
        Verdict.REPLAYED,
        "the new source is read from its start, and what the old one gave stays stored",
        way=Way.ANEW,
    ),
    "input.options": UpdateRule(Verdict.KEPT, "reading goes on at the same place with the new options"),
    "input.time_unit": UpdateRule(
        Verdict.REPLAYED,
        "event times in older blocks were read in the old unit, so this input is sliced again",
        way=Way.SLICE_AGAIN,
    ),
    "table.time_unit": UpdateRule(Verdict.KEPT, "rows that are stored keep the times that they were given"),
    "input.ordered": UpdateRule(
        Verdict.KEPT, "stream time stays where it is, and moves on in the new way from there"
    ),
    "table.added": UpdateRule(Verdict.KEPT, "nothing that runs is touched"),
    "table.removed": UpdateRule(Verdict.KEPT, "what it has stored stays"),
    "table.moved": UpdateRule(
        Verdict.KEPT,
        "it goes on with the rows after the switch, whether or not these are stored once before it",
        way=Way.FINISH,
    ),
    "sink.changed": UpdateRule(
        Verdict.KEPT, "new rows go to the new place; what is stored stays where it is", way=Way.FINISH
    ),
    "sink.keys": UpdateRule(
        Verdict.REFUSED,
        "records that are stored already are found by the old key",
        ("store them in another table, and look them up there",),
    ),
    "sink.sharded": UpdateRule(
        Verdict.REFUSED,
        "all rows of a category have a hash, by which they are sorted, or none has",
        ("store them in another category",),
    ),
    "sink.options": UpdateRule(Verdict.KEPT, "new rows are stored with the new options"),
}
"""Kinds of change and their verdicts; `braid.plan.update.diff` finds the changes."""

STAGE_RULES: dict[str, UpdateRule] = {
    "stage.added": UpdateRule(Verdict.KEPT, "nothing that runs is touched"),
    "stage.removed": UpdateRule(Verdict.KEPT, "its rows in flight do not come out, unless it comes back"),
    "stage.changed": UpdateRule(
        Verdict.REPLAYED,
        "nothing is known of what its state has in common with the new one, so it is closed, and begins anew",
        _NEW_VIEW,
        Way.CLOSE,
    ),
    "stage.kind": UpdateRule(
        Verdict.REPLAYED,
        "what one operator keeps says nothing to another one, which reads its inputs from their start",
        _NEW_VIEW,
        Way.ANEW,
    ),
    "stage.adjusted": UpdateRule(
        Verdict.KEPT, "the rows that it has kept so far stay, and count by the new rule", way=Way.FINISH
    ),
    "stage.keys": UpdateRule(
        Verdict.REPLAYED,
        "blocks are hashed, sorted and sharded by the key, so the input is sliced again",
        _NEW_VIEW,
        Way.SLICE_AGAIN,
    ),
}
"""Verdicts on stages whose kind does not say more about its changes."""

OPTION_KINDS = {"shards": "shards.changed", "stream_time": "stream_time.changed"}
"""Options whose change has a rule of its own."""
