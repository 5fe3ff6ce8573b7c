"""Pure decisions of upkeep: what is needed never goes, whoever needs it, and however records are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from braid import api
from braid.core.config import AppConfig, parse_options
from braid.core.counters import Counters, InputCounters
from braid.core.positions import Position
from braid.core.times import DAY, FOREVER, HOUR, MINUTE
from braid.engine.needs import needed_commits
from braid.engine.offsets import OperatorOffset, ReadOffset
from braid.engine.upkeep_rules import AppFacts, CategoryKind, CategoryRule, compaction, rules
from braid.eventtime.offset import InputOffset, Offset
from braid.home.needs import KEPT, QueryNeeds
from braid.log.compaction import CompactionConfig
from braid.log.records import Commit, Origin
from braid.log.segments import SegmentEntry
from braid.plan.physical.readers import CategoryReader, category_readers
from braid.plan.stages.base import Plan

WRITER = """
CREATE APPLICATION writer;
CREATE INPUT TABLE l (id bigint, t timestamp) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp) FROM SCRIBE("r") TIME t;
CREATE VIEW j AS SELECT l.id AS id, l.t AS t FROM l JOIN r ON l.id = r.id
  AND r.t BETWEEN l.t AND l.t + INTERVAL '1 minute';
CREATE TABLE pairs AS SELECT * FROM j STORAGE SCRIBE(category = "pairs");
CREATE TABLE shown AS SELECT id FROM l STORAGE CONSOLE;
"""
READER = """
CREATE APPLICATION reader;
CREATE INPUT TABLE p (id bigint) FROM SCRIBE("pairs");
CREATE TABLE copy AS SELECT * FROM p STORAGE SCRIBE(category = "copy");
"""


def plan(text: str) -> Plan:
    return api.compile_text(text).plan


def app(text: str, needs: dict[str, QueryNeeds] | None = None, **options: object) -> AppFacts:
    program = plan(text)
    name = program.application
    return AppFacts(name, program, parse_options(options), f"{name}.dead_letter", needs or {})


def needs(commits: dict[str, int], written: int = -1) -> QueryNeeds:
    return QueryNeeds().after(0, commits, written, 5.0)


def test_every_query_of_a_plan_that_reads_a_category_is_known() -> None:
    found = {reader.query: reader for reader in category_readers(plan(WRITER))}
    operator = next(reader for reader in found.values() if reader.stateful)
    assert found["shown.relay"].inputs == {"writer.shown.relay": "writer.shown.relay"}
    assert {name for reader in found.values() for name in reader.inputs.values()} == {
        "l",
        "r",
        *operator.inputs.values(),
        "writer.shown.relay",
    }


def test_what_a_category_is_and_how_long_it_is_kept() -> None:
    writer = app(WRITER, retention="1 hour", output_retention="2 hours", dead_letter_retention="forever")
    reader = app(READER, retention="3 days")
    join = next(reader for reader in category_readers(writer.plan) if reader.stateful)
    left = next(iter(join.inputs.values()))
    names = ["l", left, "pairs", "copy", "writer.shown.relay", "writer.dead_letter", "stray"]
    found = rules([writer, reader], names)
    assert {name: (rule.kind, rule.keep) for name, rule in found.items()} == {
        "l": (CategoryKind.INPUT, HOUR),
        left: (CategoryKind.INTERMEDIATE, HOUR),
        "pairs": (CategoryKind.OUTPUT, 3 * DAY),
        "copy": (CategoryKind.OUTPUT, 7 * DAY),
        "writer.shown.relay": (CategoryKind.INTERMEDIATE, HOUR),
        "writer.dead_letter": (CategoryKind.DEAD_LETTERS, FOREVER),
        "stray": (CategoryKind.UNUSED, FOREVER),
    }


def test_a_query_that_never_ran_needs_everything_and_so_does_a_stopped_one() -> None:
    readers = [reader.query for reader in category_readers(plan(READER))]
    known = {readers[0]: needs({"pairs": 7})}
    assert rules([app(WRITER), app(READER)], ["pairs"])["pairs"].needed_from(99) == 0
    rule = rules([app(WRITER), app(READER, known)], ["pairs"])["pairs"]
    assert rule.needed_from(99) == 7
    assert rule.holder is not None
    assert (rule.holder.application, rule.holder.query, rule.holder.since) == ("reader", readers[0], 5.0)
    assert rules([app(WRITER)], ["pairs"])["pairs"].needed_from(99) == 99


def test_letters_of_a_micro_batch_that_may_be_repeated_stay() -> None:
    stage = plan(WRITER).stages[0].name
    rule = rules([app(WRITER, {stage: needs({}, written=4)})], ["writer.dead_letter"])["writer.dead_letter"]

    def settled(origin: Origin | None) -> bool:
        return rule.settled(Commit(0, 0, 0, (), {}, {}, origin))

    assert settled(Origin(stage, 4))
    assert not settled(Origin(stage, 5))
    assert not settled(Origin(plan(WRITER).stages[1].name, 0))
    assert settled(Origin("a stage that is gone", 9))
    assert settled(None)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.data())
def test_any_of_the_last_micro_batches_can_be_repeated(moves: list[int], data: st.DataObject) -> None:
    """A reader at a random pace, with records written now and then: from whichever of Spark's checkpoints
    it begins again, what it reads from there on has not been given up."""
    reader = CategoryReader("q", {"source": "c"})
    starts, kept, stored = [0], QueryNeeds(), QueryNeeds()
    for batch, move in enumerate(moves):
        start = ReadOffset(Position(starts[-1], 0)).to_json()
        kept = kept.after(batch, needed_commits(reader, start if batch else None, None), -1, float(batch))
        starts.append(starts[-1] + move)
        if data.draw(st.booleans()):
            stored = kept
        for back in range(1, min(KEPT - 1, len(starts)) + 1):
            assert stored.needed("c") <= kept.needed("c") <= starts[-back]
    assert len(kept.recent) <= KEPT


@given(st.integers(0, 50), st.integers(0, 9), st.none() | st.integers(0, 50), st.none() | st.integers(0, 50))
def test_an_operator_needs_its_offset_its_estimator_and_its_blocks(
    commit: int, chunk: int, since: int | None, oldest: int | None
) -> None:
    reader = CategoryReader("j", {"left": "a", "right": "a", "other": "b"}, stateful=True)
    estimator = None if since is None else {"since": [min(since, commit), 0]}
    inputs = {
        "left": InputOffset(Position(commit, chunk), 0, 0, estimator),
        "right": InputOffset(Position(40, 0), 0, 0),
        "other": InputOffset(Position(-1, -1), 0, 0),
    }
    counts = Counters(inputs={"right": InputCounters(oldest=oldest)})
    found = needed_commits(reader, OperatorOffset(Offset(inputs)).to_json(), counts)
    lowest = min([commit, 40, *(each for each in (since, oldest) if each is not None)])
    assert found == {"a": max(0, lowest - 1), "b": 0}


@given(
    st.lists(st.integers(0, 30), max_size=4),
    st.lists(st.integers(0, 100), max_size=30),
    st.integers(0, 100),
    st.integers(0, 60),
)
def test_what_is_young_or_needed_is_never_removed(
    positions: list[int], ages: list[int], keep: int, now: int
) -> None:
    """Retention goes from the oldest commit on, while commits are old and not needed."""
    rule = rules(
        [app(READER.replace("reader", f"r{n}"), _ran(f"r{n}", at)) for n, at in enumerate(positions)],
        ["pairs"],
    )["pairs"]
    walls = sorted(ages)
    gone = 0
    while gone < rule.needed_from(len(walls)) and walls[gone] < now - keep:
        gone += 1
    assert all(gone <= at for at in positions)
    assert all(wall < now - keep for wall in walls[:gone])
    assert isinstance(rule, CategoryRule)
    assert (rule.kind is CategoryKind.UNUSED) == (not positions)


def _ran(name: str, at: int) -> dict[str, QueryNeeds]:
    program = plan(READER.replace("reader", name))
    return {reader.query: needs({"pairs": at}) for reader in category_readers(program)}


def test_a_full_segment_spans_a_small_part_of_what_is_kept() -> None:
    """Segments are retired as a whole."""

    def segment(first: int, size: int, wall: int) -> SegmentEntry:
        return SegmentEntry(first, first + 9, "x", size, 0, 0, (wall, wall + MINUTE), {})

    assert compaction(MINUTE, []) is None
    assert compaction(FOREVER, []) == CompactionConfig()
    slow = [segment(0, 2**20, 0), segment(10, 2**20, MINUTE)]
    config = compaction(8 * HOUR, slow)
    assert config is not None
    assert config.segment_bytes == 30 * 2**20  # half an hour's worth, at a megabyte a minute
    assert compaction(2 * DAY * 365, slow) == CompactionConfig()


def test_defaults_are_those_of_a_persistent_log() -> None:
    options = AppConfig()
    assert (options.retention, options.output_retention, options.dead_letter_retention) == (
        2 * DAY,
        7 * DAY,
        30 * DAY,
    )
