"""One JOIN as written: its kind and type, its table, and the clauses after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from braid.kernels.join.spec import JoinType, MatchMode
from braid.lang.dialect import parse_condition, token_span
from braid.lang.errors import ClauseError
from braid.lang.source import Span
from braid.lang.syntax.clauses import JOIN_WORDS, parse_clause, parse_length, take_condition
from braid.lang.syntax.cursor import Reader
from braid.lang.syntax.relations import MODES, parse_relation
from braid.lang.syntax.tree import JoinKind, JoinSyntax, RelationSyntax

_REFUSED = {
    "CROSS": "a streaming join needs a time window: write JOIN ... ON with time bounds",
    "NATURAL": "write the equalities and the time bounds in ON",
    "SEMI": "write INNER JOIN ... ON ... MATCH FIRST and select columns of the left side only",
    "ANTI": "write LEFT JOIN, and WHERE ... IS NULL on a column of the right side",
}
_TYPES = {
    "": JoinType.INNER,
    "INNER": JoinType.INNER,
    "LEFT": JoinType.LEFT,
    "LEFT OUTER": JoinType.LEFT,
    "RIGHT": JoinType.RIGHT,
    "RIGHT OUTER": JoinType.RIGHT,
    "FULL": JoinType.FULL,
    "FULL OUTER": JoinType.FULL,
}
EITHER_ORDER = "pql_either_order"
"""Key in the `meta` of a condition that INTERPOLATE stands for: the word says the direction."""
_INTERPOLATE = {"PREVIOUS": exp.GTE, "NEXT": exp.LTE}


@dataclass
class _After:
    """The clauses after ON, each of which may come once, in any order."""

    match: MatchMode | None = None
    consume: bool = False
    within: int | None = None
    emit: bool = False
    pad_after: int | None = None


def parse_join(reader: Reader) -> JoinSyntax | None:
    """Read a join with all of its clauses; None when there is none."""
    start = reader.index
    if reader.word() == ",":
        raise ClauseError(
            "PQL408",
            reader.span(),
            "a comma between tables is not supported",
            "write JOIN ... ON with time bounds",
        )
    if reader.word() == "SPARSE" and reader.word(1) == "JOIN":
        text = "SPARSE JOIN does not exist"
        raise ClauseError("PQL408", reader.span(), text, "write TIMESERIES SPARSE JOIN")
    head = _head(reader, start)
    if head is None:
        return None
    kind, type_ = head
    relation = parse_relation(reader)
    if reader.word() == "USING":
        raise ClauseError(
            "PQL408",
            reader.span(),
            "USING is not supported",
            "write the equalities and the time bounds in ON",
        )
    condition = _match_condition(reader, kind)
    on, on_span, complete = None, relation.span, True
    if reader.accept("ON"):
        on_start = reader.index
        tokens = take_condition(reader, "ON")
        on_span = reader.since(on_start)
        found, rest = _interpolate(reader, tokens)
        if found is not None:
            if condition is not None:
                raise _twice(on_span, "what the times are matched by")
            condition, kind = found, JoinKind.ASOF
        if rest:
            on = parse_clause(reader, rest)
            complete = on is not None
    elif not _may_lack_on(kind, relation):
        what = (
            "ON with the lookup's keys"
            if relation.lookup
            else "ON with the join's equalities and time bounds"
        )
        raise reader.unexpected(["ON"], what)
    after = _after(reader)
    _check(kind, type_, relation, condition, after, reader.since(start))
    return JoinSyntax(
        type_,
        relation,
        on,
        on_span,
        after.match or MatchMode.ALL,
        reader.since(start),
        kind,
        condition,
        after.within,
        after.consume,
        after.pad_after,
        complete,
    )


def _head(reader: Reader, start: int) -> tuple[JoinKind, JoinType] | None:
    """Read `[INNER | LEFT | ...] [ASOF | TIMESERIES [SPARSE]] JOIN`, the words in either order."""
    words: list[str] = []
    kind = JoinKind.WINDOW
    while reader.word() in JOIN_WORDS:
        word = reader.word()
        reader.index += 1
        if word in ("ASOF", "TIMESERIES") and kind is JoinKind.WINDOW:
            kind = JoinKind.ASOF if word == "ASOF" else JoinKind.TIMESERIES
            if kind is JoinKind.TIMESERIES and reader.accept("SPARSE"):
                kind = JoinKind.SPARSE
        else:
            words.append(word)
    if not reader.accept("JOIN"):
        if words or kind is not JoinKind.WINDOW:
            raise reader.unexpected(("OUTER", "SPARSE", "JOIN"), "JOIN")
        return None
    refused = next((word for word in words if word in _REFUSED), None)
    if refused is not None:
        text = f"{refused} JOIN is not supported"
        raise ClauseError("PQL408", reader.since(start), text, _REFUSED[refused])
    written = " ".join(words)
    if written not in _TYPES:
        names = ", ".join(f"{name} JOIN" for name in ("INNER", "LEFT", "RIGHT", "FULL"))
        text = f"{written} JOIN does not exist"
        raise ClauseError("PQL408", reader.since(start), text, f"there are {names}")
    if kind is JoinKind.ASOF and _TYPES[written] not in (JoinType.INNER, JoinType.LEFT):
        raise ClauseError(
            "PQL408",
            reader.since(start),
            f"an ASOF join cannot be a {_TYPES[written].name} join: each left row has one match, or none",
            "swap the two sides and write ASOF LEFT JOIN, or write TIMESERIES JOIN",
        )
    return kind, _TYPES[written]


def _may_lack_on(kind: JoinKind, relation: RelationSyntax) -> bool:
    return kind is not JoinKind.WINDOW and not relation.lookup


def _match_condition(reader: Reader, kind: JoinKind) -> exp.Expr | None:
    start = reader.index
    if not reader.accept("MATCH_CONDITION"):
        return None
    if not reader.accept("("):
        raise reader.unexpected(["("])
    tokens = reader.take_until(())
    if not tokens or not reader.accept(")"):
        raise reader.unexpected((), "a comparison of two times")
    if kind is not JoinKind.ASOF:
        raise ClauseError(
            "PQL408",
            reader.since(start),
            f"MATCH_CONDITION does not go with {kind.value}",
            "write ASOF JOIN, or write the comparison in ON",
        )
    return parse_condition(tokens, reader.source)


def _interpolate(reader: Reader, tokens: Sequence[Token]) -> tuple[exp.Expr | None, list[Token]]:
    """`a INTERPOLATE PREVIOUS VALUE b` among the conjuncts of ON as a comparison, and the tokens without."""
    words = [token.text.upper() for token in tokens]
    depth, cuts, found, either = 0, [-1], None, False
    for i, token in enumerate(tokens):
        depth += (token.token_type in (TokenType.L_PAREN, TokenType.CASE)) - (
            token.token_type in (TokenType.R_PAREN, TokenType.END)
        )
        if depth:
            continue
        if words[i] == "AND":
            cuts.append(i)
        either = either or words[i] == "OR"
        if words[i] == "INTERPOLATE" and words[i + 1 : i + 3] in (["PREVIOUS", "VALUE"], ["NEXT", "VALUE"]):
            if found is not None:
                raise _twice(token_span(token), "INTERPOLATE")
            found = i
    if found is None:
        return None, list(tokens)
    place = token_span(tokens[found]).to(token_span(tokens[found + 2]))
    if either:
        raise ClauseError("PQL412", place, "INTERPOLATE cannot stand beside OR", "connect it with AND")
    before = max(cut for cut in cuts if cut < found)
    after = min((cut for cut in cuts if cut > found), default=len(tokens))
    sides = tokens[before + 1 : found], tokens[found + 3 : after]
    if not all(sides):
        raise ClauseError("PQL101", place, "INTERPOLATE ... VALUE stands between two times")
    left, right = (parse_condition(list(side), reader.source) for side in sides)
    rest = [*tokens[: max(before, 0)], *tokens[after + (before < 0) :]]
    condition = _INTERPOLATE[words[found + 1]](this=left, expression=right)
    condition.meta[EITHER_ORDER] = True
    return condition, rest


def _after(reader: Reader) -> _After:
    """Read MATCH, WITHIN and EMIT UNMATCHED, in any order."""
    found = _After()
    while not reader.done:
        start = reader.index
        if reader.accept("MATCH"):
            if found.match is not None:
                raise _twice(reader.since(start), "MATCH")
            found.match, found.consume = _match(reader)
        elif reader.accept("WITHIN"):
            if found.within is not None:
                raise _twice(reader.since(start), "WITHIN")
            found.within = parse_length(reader, "WITHIN")
        elif reader.accept("EMIT"):
            if found.emit:
                raise _twice(reader.since(start), "EMIT")
            found.emit = True
            reader.expect("UNMATCHED")
            if reader.accept("ON"):
                reader.expect("CLOSE")
            elif reader.accept("AFTER"):
                found.pad_after = parse_length(reader, "AFTER")
            else:
                raise reader.unexpected(("ON", "AFTER"), "ON CLOSE or AFTER INTERVAL '...'")
        elif reader.word() == "CONSUME":
            text = "CONSUME does not stand alone"
            raise ClauseError("PQL409", reader.span(), text, "write MATCH FIRST CONSUME")
        else:
            break
    return found


def _match(reader: Reader) -> tuple[MatchMode, bool]:
    if reader.word() not in MODES:
        problem = reader.unexpected(MODES, "a match mode").diagnostic
        raise ClauseError("PQL409", problem.span, problem.message, problem.hint)
    reader.index += 1
    mode = MatchMode[reader.word(-1)]
    start = reader.index
    consume = reader.accept("CONSUME")
    if consume and mode is not MatchMode.FIRST:
        raise ClauseError(
            "PQL409",
            reader.since(start),
            f"CONSUME does not go with MATCH {mode.name}",
            "write MATCH FIRST CONSUME: each right row then matches at most once",
        )
    return mode, consume


def _check(
    kind: JoinKind,
    type_: JoinType,
    relation: RelationSyntax,
    condition: exp.Expr | None,
    after: _After,
    span: Span,
) -> None:
    """Refuse clauses that do not go together."""
    if relation.lookup:
        _check_lookup(kind, type_, after, span)
    if kind is JoinKind.WINDOW and after.within is not None:
        text, hint = "WITHIN does not go with JOIN", "bound the times in ON, or write TIMESERIES or ASOF JOIN"
    elif kind is not JoinKind.WINDOW and after.emit:
        text = f"EMIT UNMATCHED does not go with {kind.value}"
        hint = "leave it out: rows without a partner come out as soon as that is certain"
    elif kind in (JoinKind.TIMESERIES, JoinKind.SPARSE) and after.match is not None:
        text, hint = f"MATCH does not go with {kind.value}", "write ASOF JOIN ... MATCH NEAREST"
    elif kind is JoinKind.ASOF and after.match not in (None, MatchMode.NEAREST):
        text = f"MATCH {after.match.name} does not go with ASOF JOIN"
        hint = "write MATCH_CONDITION (left.time >= right.time), or MATCH NEAREST"
    elif after.emit and type_ is JoinType.INNER:
        text = "EMIT UNMATCHED does not go with an INNER join, which has no unmatched rows"
        hint = "write LEFT, RIGHT or FULL JOIN, or leave it out"
    elif kind is JoinKind.ASOF and condition is None and after.match is None:
        text = "the ASOF join does not say which row counts as the match"
        hint = "add MATCH_CONDITION (left.time >= right.time) before ON, or MATCH NEAREST after it"
        raise ClauseError("PQL412", span, text, hint)
    else:
        return
    raise ClauseError("PQL408", span, text, hint)


def _check_lookup(kind: JoinKind, type_: JoinType, after: _After, span: Span) -> None:
    if type_ not in (JoinType.INNER, JoinType.LEFT) or kind is not JoinKind.WINDOW:
        raise ClauseError(
            "PQL408",
            span,
            f"a LOOKUP cannot be joined with {type_.name} {kind.value}",
            "write JOIN LOOKUP or LEFT JOIN LOOKUP",
        )
    if after.match is not None or after.emit or after.within is not None:
        raise ClauseError(
            "PQL408",
            span,
            "MATCH, WITHIN and EMIT do not go with a LOOKUP, which has one row per key and no time",
            "leave them out",
        )


def _twice(span: Span, what: str) -> ClauseError:
    return ClauseError("PQL101", span, f"{what} is given twice", "remove one")
