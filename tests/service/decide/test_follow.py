"""What is decided about each file; and that whatever happens, it ends in agreement."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from braid.client.models import Desired
from braid.client.repo import FileState
from braid.service.decide.follow import (
    RETRY_SECONDS,
    Content,
    File,
    Known,
    Present,
    Step,
    What,
    basis_of,
    claimed,
    decide,
)

HEAD = "c" * 40
FILE = File("a.sql", Content("p1"), "app")
RUNS = Present(version=1, author="ann", latest=1)
OTHER = replace(RUNS, version=2, latest=2, differs=("the program",))
LANDED = Known(
    "a.sql", "app", Content("p1"), agreed="p1", landed=Content("p1"), commit="b", version=1, accepted="b"
)


def one(
    file: File = FILE, known: Known | None = LANDED, here: Present | None = RUNS, asked: str | None = None
) -> Step:
    """The step for a file."""
    present = {} if here is None else {"app": here}
    (step,) = decide([file], [] if known is None else [known], present, HEAD, 100.0, asked)
    return step


CHANGED = replace(FILE, content=Content("p2"))
STOPPED = replace(FILE, desired=Desired.STOPPED, content=Content("p1", "y2"))
WAITS = Present(version=1, latest=2, waiting=2, differs=("the program",), waiting_fits=True)


@pytest.mark.parametrize(
    ("file", "known", "here", "what", "state"),
    [
        (FILE, None, None, What.DEPLOY, FileState.APPLIED),
        (FILE, LANDED, RUNS, What.RECORD, FileState.APPLIED),
        (FILE, None, RUNS, What.RECORD, FileState.APPLIED),
        (FILE, None, OTHER, What.RECORD, FileState.CONFLICT),
        (FILE, LANDED, OTHER, What.RECORD, FileState.DRIFT),
        (FILE, LANDED, None, What.RECORD, FileState.DRIFT),
        (FILE, LANDED, replace(RUNS, desired=Desired.STOPPED), What.RECORD, FileState.DRIFT),
        (FILE, LANDED, replace(RUNS, desired=Desired.DELETED), What.RECORD, FileState.DRIFT),
        (FILE, None, replace(RUNS, desired=Desired.STOPPED), What.RECORD, FileState.DRIFT),
        (FILE, None, Present(version=None, latest=1, waiting=1), What.RECORD, FileState.CONFLICT),
        (CHANGED, LANDED, replace(RUNS, differs=("the program",)), What.DEPLOY, FileState.APPLIED),
        (CHANGED, LANDED, OTHER, What.DEPLOY, FileState.APPLIED),
        (CHANGED, LANDED, None, What.DEPLOY, FileState.APPLIED),
        (CHANGED, LANDED, RUNS, What.RECORD, FileState.APPLIED),
        (STOPPED, LANDED, RUNS, What.WANT, FileState.APPLIED),
        (CHANGED, LANDED, WAITS, What.RECORD, FileState.WAITING),
        (
            FILE,
            replace(LANDED, version=2),
            replace(OTHER, version=1, void=True),
            What.DEPLOY,
            FileState.APPLIED,
        ),
        (replace(FILE, problem="wrong"), LANDED, RUNS, What.RECORD, FileState.PROBLEM),
        (File("a.sql", Content("p2"), None, "broken"), LANDED, RUNS, What.RECORD, FileState.PROBLEM),
        (File("a.sql", Content("p2"), None, "broken"), None, RUNS, What.RECORD, FileState.PROBLEM),
    ],
)
def test_what_is_done_about_a_file(
    file: File, known: Known | None, here: Present | None, what: What, state: FileState
) -> None:
    step = one(file, known, here)
    assert (step.what, step.known.state) == (what, state)
    assert (step.known.problem is None) == (state is FileState.APPLIED)


def test_somebody_asks_for_what_the_folder_says() -> None:
    for known, here in ((LANDED, OTHER), (None, OTHER), (LANDED, None)):
        assert one(FILE, known, here, "app").what is What.DEPLOY
        assert one(FILE, known, here, "another").what is What.RECORD
    stopped = replace(RUNS, desired=Desired.STOPPED)
    assert one(FILE, LANDED, stopped, "app").what is What.WANT
    assert one(FILE, None, stopped, "app").what is What.WANT
    assert one(FILE, LANDED, stopped, "another").what is What.RECORD


def test_what_was_rejected_waits_for_something_to_change() -> None:
    known = one(CHANGED, LANDED, OTHER).known.rejected("no", "do", 100.0, basis_of(HEAD, OTHER))

    def what(file: File = CHANGED, here: Present = OTHER, commit: str = HEAD, now: float = 101.0) -> What:
        (step,) = decide([file], [known], {"app": here}, commit, now)
        return step.what

    assert what() is What.RECORD
    assert one(CHANGED, known, OTHER).known == known
    assert what(now=100.0 + RETRY_SECONDS) is What.DEPLOY
    assert what(commit="d" * 40) is What.DEPLOY
    assert what(here=replace(OTHER, version=3, latest=3)) is What.DEPLOY
    assert what(here=replace(OTHER, desired=Desired.STOPPED)) is What.DEPLOY
    assert what(file=replace(FILE, content=Content("p3"))) is What.DEPLOY
    assert what(file=replace(CHANGED, content=Content("p2", "y"))) is What.DEPLOY
    assert one(CHANGED, known, OTHER, "app").what is What.DEPLOY


def test_consent_is_for_the_program_that_it_came_with() -> None:
    def agreed(known: Known, *content: str) -> Known:
        return one(replace(FILE, content=Content(*content)), known, OTHER).known

    assert one(FILE, None, None).known.may_agree
    first = agreed(LANDED, "p1", "y1")
    assert first.may_agree
    second = agreed(first, "p2", "y1")
    assert not second.may_agree
    assert agreed(second, "p1", "y1").may_agree
    assert agreed(second, "p2", "y2").may_agree
    assert agreed(first, "p2", "y2").may_agree


def test_a_version_that_waits_and_is_not_wanted_any_more_is_void() -> None:
    here = replace(RUNS, latest=2, waiting=2)
    steps = decide([CHANGED], [replace(LANDED, version=2)], {"app": here}, HEAD, 100.0)
    assert [step.what for step in steps] == [What.VOID, What.RECORD]
    # One that somebody else has landed is theirs.
    assert one(CHANGED, LANDED, here).what is What.RECORD


def test_renamed_files_take_what_is_known_with_them() -> None:
    moved = replace(FILE, path="b.sql")
    steps = decide([moved], [LANDED], {"app": RUNS}, HEAD, 100.0)
    assert [(step.what, step.known.path) for step in steps] == [
        (What.RECORD, "b.sql"),
        (What.FORGET, "a.sql"),
    ]
    assert steps[0].known == replace(LANDED, path="b.sql")
    assert steps[0].before == LANDED


def test_records_end_with_what_they_are_of() -> None:
    assert decide([], [LANDED], {"app": RUNS}, HEAD, 1.0)[0].known.state is FileState.ORPHAN
    assert decide([], [LANDED], {}, HEAD, 1.0)[0].what is What.FORGET
    assert decide([], [replace(LANDED, landed=None)], {"app": RUNS}, HEAD, 1.0)[0].what is What.FORGET


def test_two_new_names_for_one_application_are_told_and_lose_nothing() -> None:
    files = [replace(FILE, path=path) for path in ("b.sql", "c.sql")]
    steps = decide(files, [LANDED], {"app": RUNS}, HEAD, 1.0)
    assert {(step.what, step.known.state) for step in steps} == {(What.RECORD, FileState.PROBLEM)}
    records = [step.known for step in steps]
    steps = decide(files[:1], records, {"app": RUNS}, HEAD, 1.0)
    (kept,) = (step.known for step in steps if step.what is What.RECORD)
    assert (kept.path, kept.landed, kept.state) == ("b.sql", Content("p1"), FileState.APPLIED)
    assert [step.what for step in steps].count(What.FORGET) == 2


@dataclass
class World:
    """Files, people, and a service that takes the steps that are decided; programs are their hashes."""

    dice: random.Random
    review: bool
    files: dict[str, File] = field(default_factory=dict)
    records: dict[tuple[str, str], Known] = field(default_factory=dict)
    versions: dict[str, list[tuple[Content, str]]] = field(default_factory=dict)
    """Contents and states of versions."""
    current: dict[str, int | None] = field(default_factory=dict)
    desired: dict[str, Desired] = field(default_factory=dict)
    now: float = 0.0
    commit: int = 0
    rejecting: bool = False

    def present(self) -> dict[str, Present]:
        claims = {application: file for file, application in claimed(list(self.files.values()), self.known)}
        found = {}
        for name, versions in self.versions.items():
            file, current = claims.get(name), self.current[name]
            content = None if current is None else versions[current - 1][0]
            waiting = next((n for n, (_, state) in enumerate(versions, 1) if state == "waiting"), None)
            found[name] = Present(
                version=current,
                latest=len(versions),
                void=versions[-1][1] == "void",
                waiting=waiting,
                desired=self.desired[name],
                differs=("the program",) if file and content is not None and file.content != content else (),
                waiting_fits=bool(file and waiting and versions[waiting - 1][0] == file.content),
            )
        return found

    @property
    def known(self) -> list[Known]:
        return list(self.records.values())

    def land(self, name: str, content: Content, desired: Desired, review: bool) -> int:
        versions = self.versions.setdefault(name, [])
        versions[:] = [(held, "void" if state == "waiting" else state) for held, state in versions]
        versions.append((content, "waiting" if review else "accepted"))
        self.current.setdefault(name, None)
        self.desired.setdefault(name, Desired.RUNNING)
        if not review:
            self.current[name], self.desired[name] = len(versions), desired
        return len(versions)

    def turn(self, asked: str | None = None) -> int:
        """Take all steps; how many have changed something that runs."""
        self.now += 10
        before, changes = self.present(), 0
        for step in decide(list(self.files.values()), self.known, before, str(self.commit), self.now, asked):
            known, name = step.known, step.known.application
            if step.what is What.FORGET:
                del self.records[known.key]
                continue
            if step.what is What.DEPLOY and self.rejecting:
                known = known.rejected("no", None, self.now, basis_of(str(self.commit), before.get(name)))
            elif step.what is What.DEPLOY:
                changes += 1
                number = self.land(name, known.seen, self.files[known.path].desired, self.review)
                known = known.applied(str(self.commit), number)
                known = known.waiting(number) if self.review else known.runs().stands(FileState.APPLIED)
            elif step.what is What.WANT:
                changes += 1
                self.desired[name] = step.desired
            elif step.what is What.VOID:
                assert known.version is not None
                content, state = self.versions[name][known.version - 1]
                assert state == "waiting"
                self.versions[name][known.version - 1] = (content, "void")
                continue
            self.records[known.key] = known
        return changes

    def approve(self) -> None:
        for name, versions in self.versions.items():
            for number, (content, state) in enumerate(versions, 1):
                if state == "waiting":
                    versions[number - 1] = (content, "accepted")
                    file = next((f for f in self.files.values() if f.application == name), None)
                    self.current[name] = number
                    self.desired[name] = file.desired if file and file.content == content else Desired.RUNNING

    def happen(self) -> None:
        """Something happens: in the folder, or by somebody's hand."""
        dice, name = self.dice, f"app{self.dice.randrange(3)}"
        path, other = (f"f{dice.randrange(4)}.sql" for _ in range(2))
        content = Content(f"p{dice.randrange(4)}", dice.choice(["", "y"]))
        match dice.randrange(10):
            case 0 | 1 | 2:
                # What is desired stands in the file, so that it is part of its content.
                self.files[path] = File(path, content, name, desired=_desired(content))
            case 3:
                self.files[path] = File(path, content, None, "broken")
            case 4:
                self.files.pop(path, None)
            case 5 if path in self.files and path != other:
                self.files[other] = replace(self.files.pop(path), path=other)
            case 6:
                self.land(name, content, Desired.RUNNING, dice.random() < 0.3)
            case 7 if name in self.versions:
                self.desired[name] = dice.choice([Desired.RUNNING, Desired.STOPPED])
            case 8 if name in self.versions:
                for held in (self.versions, self.current, self.desired):
                    held.pop(name)
            case 9:
                self.approve()
        self.commit += dice.randrange(2)


def _desired(content: Content) -> Desired:
    return Desired.STOPPED if content.settings else Desired.RUNNING


@pytest.mark.parametrize("seed", range(150))
def test_whatever_happens_it_ends_in_agreement(seed: int) -> None:
    dice = random.Random(seed)
    world = World(dice, review=seed % 3 == 0)
    for _ in range(dice.randrange(5, 60)):
        world.happen()
        world.rejecting = dice.random() < 0.2
        names = set(world.versions)
        world.turn()
        assert names <= set(world.versions), "something was deleted"
        world.rejecting = False
    # Everybody leaves off; whoever sees something wrong says so.
    world.files = {path: file for path, file in world.files.items() if file.application}
    taken: dict[str | None, str] = {}
    for path in sorted(world.files):
        taken.setdefault(world.files[path].application, path)
    world.files = {path: world.files[path] for path in taken.values()}
    world.commit += 1
    for _ in range(4):
        for file in world.files.values():
            world.turn(file.application)
            world.approve()
    world.turn()
    assert world.turn() == 0, "something goes on happening"
    before = dict(world.records)
    world.turn()
    assert world.records == before
    for file in world.files.values():
        assert file.application is not None
        current = world.current[file.application]
        assert current is not None
        assert world.versions[file.application][current - 1][0] == file.content
        assert world.desired[file.application] == file.desired
        assert world.records[file.path, file.application].state is FileState.APPLIED
    for key, record in world.records.items():
        if key[0] not in world.files or world.files[key[0]].application != key[1]:
            assert record.state is FileState.ORPHAN
            assert record.application in world.versions
