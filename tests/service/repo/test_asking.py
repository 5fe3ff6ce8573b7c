"""What stands in the YAML file beside a program: options, resources, consent; and what does not."""

from __future__ import annotations

import pytest

from braid.client.models import Desired
from braid.core.errors import ConfigError
from braid.service.repo.asked import Consent, read_asked
from tests.service.repo.conftest import Followed, program
from tests.service.repo.test_following import CLICKS, MORE, ran

YAML = "apps/clicks.yaml"
KEYS = program(keys="upper(l.k) = upper(r.k)")
TABLE = 'CREATE TABLE more AS SELECT id FROM l STORAGE SCRIBE(category = "more");'


def test_all_that_can_be_asked_for() -> None:
    found = read_asked(
        """
        options: {shards: 4, idle_timeout: 1 hour, sample: yes}
        resources:
          cores: 2
          memory: 1g
          pool: small
        create: true
        agree: [replay, discard, remove]
        desired: stopped
        """,
        YAML,
    )
    assert found.options == {"shards": "4", "idle_timeout": "1 hour", "sample": "yes"}
    assert found.resources.asked == {"cores": 2, "memory": "1g", "pool": "small"}
    assert (found.create, found.agree, found.desired) == (True, frozenset(Consent), Desired.STOPPED)
    assert read_asked("", YAML) == read_asked("# nothing", YAML) == read_asked("{}", YAML)


BOMB = "\n".join(
    ["a: &a [x, x]", *(f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True))]
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "option: {}",
            "unknown name 'option'\n  hint: valid names: options, resources, create, agree, desired",
        ),
        ("resources: {gpus: 1}", "unknown name 'resources.gpus'\n  hint: valid names: cores, memory"),
        ("resources: {cores: 0}", "resources.cores: Input should be greater"),
        ("resources: {memory: lots}", "resources.memory"),
        ("agree: [everything]", "Input should be 'replay', 'discard' or 'remove'"),
        ("agree: replay", "agree: "),
        ("desired: deleted", "the folder deletes nothing"),
        ("desired: walking", "desired: "),
        ("create: perhaps", "create: "),
        ("options: [a]", "options: "),
        ("options: {a: [b]}", "options.a: "),
        ("- a", "it has these names"),
        ("a text", "it has these names"),
        ("a: 1\na: 2", "a comes twice"),
        ("options: {shards: 1, shards: 2}", "shards comes twice"),
        ("? [a]\n: b", "it is not YAML"),
        ("a: [", "it is not YAML"),
        ("a: b: c", r"it is not YAML: mapping values are not allowed here (line 1, column 5)"),
        ("a: 1\n---\nb: 2", "it is not YAML: expected a single document"),
        ("a: \x07", "it is not YAML"),
        ('a: "\\ud800"', "characters that cannot be printed"),
        (BOMB, "it has anchors or aliases"),
        ("a: &b 1", "it has anchors or aliases"),
        ("!!python/object/apply:os.system [id]", "it has a tag"),
        ("options: {shards: !!int 3}", "it has a tag"),
        ("[" * 5000, "nested more than"),
        ("a: " + "{b: " * 3000, "nested more than"),
    ],
)
def test_what_is_wrong_is_said_in_words(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as found:
        read_asked(text, YAML)
    assert said in str(found.value)
    assert str(found.value).startswith(f"{YAML}: ")


def test_options_and_resources_are_part_of_what_is_deployed(followed: Followed) -> None:
    followed.push({CLICKS: program(), YAML: "options: {shards: 2}\nresources: {memory: 1g}"})
    found = followed.get("/applications/clicks/versions/1")
    assert (found["options"], found["resources"]["memory"]) == ({"shards": "2"}, "1g")
    ran(followed, 1)
    followed.push({YAML: "options: {shards: 2}\nresources: {memory: 2g}"})
    assert followed.get("/applications/clicks/versions/2")["resources"]["memory"] == "2g"
    followed.push({YAML: "options: {shard: 2}"})
    found = followed.file(CLICKS)
    assert (found["application"], found["state"]) == ("clicks", "problem")
    assert "unknown option 'shard'" in found["problem"]
    followed.push({YAML: "optoins: {}"})
    assert followed.file(CLICKS)["problem"] == f"{YAML}: unknown name 'optoins'"
    followed.push({YAML: None, "apps/stray.yaml": "{}", "apps/clicks.yml": "{}"})
    stray = {path: one["problem"] for path in followed.files() for one in [followed.file(path)]}
    assert stray["apps/stray.yaml"] == "there is no stray.sql beside it"
    assert stray["apps/clicks.yml"] == "it is not read"
    assert followed.get("/applications/clicks/versions/3")["options"] == {}


def test_inputs_are_made_if_the_file_says_so(followed: Followed) -> None:
    missing = program().replace('SCRIBE("l")', 'SCRIBE("nowhere")')
    followed.push({CLICKS: missing})
    assert "there is no category 'nowhere'" in followed.file(CLICKS)["problem"]
    followed.push({YAML: "create: true"})
    assert followed.files()[CLICKS] == ("clicks", "applied")


@pytest.mark.parametrize("followed", [{"folders": ("/data/shop",)}], indirect=True)
def test_files_that_programs_may_not_read_are_refused(followed: Followed) -> None:
    files = """
    CREATE APPLICATION {name};
    CREATE INPUT TABLE l (id bigint) FROM FILES("{place}", format = "json");
    CREATE TABLE out AS SELECT id FROM l STORAGE SCRIBE(category = "{name}");
    """
    followed.push(
        {
            "apps/shop.sql": files.format(name="shop", place="/data/shop/*.json"),
            "apps/token.sql": files.format(name="token", place=str(followed.tried.state.folder.token_file)),
        }
    )
    assert followed.files() == {"apps/shop.sql": ("shop", "applied"), "apps/token.sql": ("token", "problem")}


def test_what_needs_consent_is_done_only_with_it(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    ran(followed, 1)
    followed.push({CLICKS: KEYS})
    found = followed.file(CLICKS)
    assert found["state"] == "problem"
    assert found["problem"] == f"{CLICKS}: the update of 'clicks' replays inputs; nobody has agreed to that"
    assert found["hint"] == f"write `agree: [replay]` into {YAML}, or take the change back"
    assert len(followed.versions()) == 1
    followed.push({YAML: "agree: [discard]"})
    assert followed.file(CLICKS)["state"] == "problem"
    followed.push({YAML: "agree: [replay]"})
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    ran(followed, 2)
    # It was agreed to for that program, and for no other.
    followed.push({CLICKS: program(keys="lower(l.k) = lower(r.k)")})
    assert "was written for an earlier program" in followed.file(CLICKS)["hint"]
    assert len(followed.versions()) == 2
    followed.push(
        {CLICKS: program(keys="lower(l.k) = lower(r.k)") + TABLE, YAML: "# once more\nagree: [replay]"}
    )
    assert len(followed.versions()) == 3
    ran(followed, 3)
    followed.push({CLICKS: program(keys="lower(l.k) = lower(r.k)")})
    assert "leaves out what runs" in followed.file(CLICKS)["problem"]
    followed.push({YAML: "agree: [remove]"})
    assert len(followed.versions()) == 4


def test_consent_is_not_renewed_by_another_name_of_the_file(followed: Followed) -> None:
    followed.push({CLICKS: program(), YAML: "agree: [replay]"})
    ran(followed, 1)
    renamed = {CLICKS: None, YAML: None, "apps/new.sql": KEYS, "apps/new.yaml": "agree: [replay]"}
    followed.push(renamed)
    assert followed.file("apps/new.sql")["state"] == "problem"
    assert len(followed.versions()) == 1


def test_what_is_refused_says_what_to_do_instead(followed: Followed) -> None:
    followed.push({CLICKS: program()})
    ran(followed, 1)
    followed.push({CLICKS: program(MORE).replace('FROM SCRIBE("r")', 'FROM SCRIBE("l")')})
    found = followed.file(CLICKS)
    assert "is refused" in found["problem"]
    assert found["hint"]


def test_what_was_rejected_is_not_tried_again_all_the_time(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_000_000.0]
    monkeypatch.setattr(followed.follow, "_clock", lambda: clock[0])
    tried: list[str] = []
    apply = type(followed.follow._applier).apply

    def counted(*arguments: object) -> None:
        tried.append("once")
        apply(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(followed.follow._applier), "apply", counted)
    followed.push({CLICKS: program(name="clicks").replace('SCRIBE("l")', 'SCRIBE("nowhere")')})
    for _ in range(5):
        followed.look()
    assert len(tried) == 1
    for seconds, times in ((61, 2), (61, 2), (61, 3)):
        clock[0] += seconds
        followed.look()
        followed.look()
        assert len(tried) == times
    followed.push({"README.md": "another commit"})
    assert len(tried) == 4
    followed.post("/repo/applications/clicks/sync", 409)
    assert len(tried) == 5
    # What it lacks comes into being.
    followed.tried.state.home.log().create("nowhere", raw=True)
    followed.look()
    assert len(tried) == 5
    clock[0] += 121
    followed.look()
    assert followed.files() == {CLICKS: ("clicks", "applied")}
    assert len([text for text in followed.events() if CLICKS in text]) == 2
