"""Programs that are deployed read and write no files but those that they may."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from braid.api.data import publish
from braid.service.folders import is_within
from tests.service.conftest import Tried
from tests.service.test_deploying import API

PROGRAM = """
CREATE APPLICATION one;
CREATE INPUT TABLE l (id bigint, t timestamp) FROM {source};
CREATE TABLE out AS SELECT id FROM l STORAGE {storage};
"""


def plan(tried: Tried, source: str = 'SCRIBE("l")', storage: str = 'SCRIBE("out")') -> tuple[int, str]:
    answer = tried.http.post(f"{API}/plans", json={"program": PROGRAM.format(source=source, storage=storage)})
    return answer.status_code, answer.text


@pytest.fixture(autouse=True)
def inputs(tried: Tried) -> None:
    publish("l", [{"id": 1, "t": 1_700_000_000}], tried.state.home)


def test_files_are_of_folders_that_are_named(tried: Tried) -> None:
    root = tried.state.home.root
    for path in ("files/in/*.csv", f"{root}/files/*.csv", "files/[ab]/*"):
        assert plan(tried, f'FILES("{path}", format = "csv")')[0] == 200, path
    for path in (
        *(
            "/etc/*",
            "/etc/passwd",
            "service/token",
            f"{root}/service/token",
            "*",
            "file*/x",
            "files/../service/*",
        ),
        *(
            "files/*/../../service/token",
            "{{files,service}}/token",
            "file:///etc/passwd",
            "file:/etc/*",
            "s3a://b/x",
        ),
        *(
            "files/{{a,..}}/x",
            "hdfs://h/x",
            f"{root}/filesystem/x",
            "//etc/passwd",
            "/",
            "apps/one/plan.json",
        ),
    ):
        status, text = plan(tried, f'FILES("{path}", format = "csv")'.replace("{{", "{").replace("}}", "}"))
        assert status == 422, path
        assert "outside of the folders" in text or "error PQL" in text, (path, text)
    (root / "files").mkdir()
    (root / "files" / "link").symlink_to("/etc")
    assert plan(tried, 'FILES("files/link/*", format = "csv")')[0] == 422


def test_tables_are_of_the_warehouse_and_of_folders_that_are_named(tried: Tried) -> None:
    assert plan(tried, storage='HIVE(table = "db.out")')[0] == 200
    assert plan(tried, storage='HIVE(table = "out", path = "files/out")')[0] == 200
    for storage in (
        'HIVE(table = "../../evil")',
        'HIVE(table = "/etc/evil")',
        'HIVE(table = "..")',
        'HIVE(table = "out", path = "/etc/evil")',
        'HIVE(table = "out", path = "files/../../evil")',
        'HIVE(table = "out", path = "service")',
        'LASER(table = "../evil", key = (id))',
        'LASER(table = "/etc/evil", key = (id))',
        'SCRIBE(category = "../evil")',
        'SCRIBE(category = "/etc/evil")',
        'SCRIBE(category = ".hidden")',
        f'SCRIBE(category = "{"x" * 201}")',
    ):
        status, text = plan(tried, storage=storage)
        assert status == 422, (storage, text)
    for source in ('SCRIBE("../l")', 'SCRIBE("/etc")', 'SCRIBE("l\0")', 'SCRIBE("l/../l")'):
        assert plan(tried, source)[0] == 422, source


@pytest.mark.parametrize("tried", [{"folders": ("/srv/in", "s3a://bucket/in/")}], indirect=True)
def test_further_folders_are_named_in_the_settings(tried: Tried) -> None:
    for path in ("/srv/in/*.csv", "/srv/in/a/b.csv", "s3a://bucket/in/*"):
        assert plan(tried, f'FILES("{path}", format = "csv")')[0] == 200, path
    for path in ("/srv/inner/*", "/srv/*", "s3a://bucket/inner/*", "s3a://bucket", "s3://bucket/in/x"):
        assert plan(tried, f'FILES("{path}", format = "csv")')[0] == 422, path


pieces = st.lists(
    st.sampled_from(["a", "b", "..", ".", "", "*", "{a,..}", "[.]", "\\", "~", "x y"]), max_size=6
)


@given(pieces, st.booleans())
@example(["a", "..", "..", "etc"], False)
def test_what_is_within_does_not_lead_out(parts: list[str], absolute: bool) -> None:
    path = "/".join([*(["/base/files"] if absolute else ["files"]), *parts])
    if is_within(path, "files", Path("/base")):
        assert ".." not in path
        assert "\\" not in path
    elif not {"..", "{a,..}", "\\"} & set(parts):
        raise AssertionError(path)
