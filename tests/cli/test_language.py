"""`braid check`, `braid explain` and `braid diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from braid import api
from braid.cli.language import Format
from braid.cli.main import app
from braid.core.config import parse_options
from braid.home.files import write_json
from braid.home.options import write_options
from braid.home.paths import Home
from braid.plan.serialise import plan_to_json

FIGURE_3 = Path(__file__).parent.parent / "plan" / "figure3.sql"


def braid(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def edited(tmp_path: Path):
    def edit(old: str, new: str, name: str = "new.sql") -> Path:
        path = tmp_path / name
        text = FIGURE_3.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return path

    return edit


def test_check() -> None:
    assert braid("check", FIGURE_3) == (0, "sample_app: ok, 2 inputs, 1 join, 1 table\n", "")


def test_check_reports_errors_without_a_traceback(edited) -> None:
    code, out, err = braid("check", edited("l.key = r.key", "l.kye = r.key"))
    assert (code, out) == (1, "")
    assert "PQL202" in err
    assert "Traceback" not in err


def test_check_warns(edited) -> None:
    unused = 'CREATE INPUT TABLE unused (x) FROM SCRIBE("u");\n\nCREATE VIEW'
    code, out, err = braid("check", edited("CREATE VIEW", unused))
    assert code == 0
    assert "ok" in out
    assert "PQL901" in err


@pytest.mark.parametrize("form", list(Format))
def test_explain(form: Format) -> None:
    code, out, _ = braid("explain", FIGURE_3, "--format", form.value)
    assert code == 0
    assert out == api.explain(api.compile_file(FIGURE_3), form.value)


def test_formats_are_those_of_the_api() -> None:
    assert [form.value for form in Format] == list(api.FORMATS)


@pytest.mark.parametrize(
    ("old", "new", "code", "verdict"),
    [
        ("'3 minutes'", "'5 minutes'", 0, "kept"),
        ("LEFT OUTER", "INNER", 0, "kept"),
        ('SCRIBE("right")', 'SCRIBE("other")', 1, "refused"),
    ],
)
def test_diff(edited, old: str, new: str, code: int, verdict: str) -> None:
    path = edited(old, new)
    found = braid("diff", FIGURE_3, path)
    assert found[0] == code
    assert found[1].endswith(f"verdict: {verdict}\n")
    as_json = braid("diff", FIGURE_3, path, "--json")
    assert as_json[0] == code
    assert json.loads(as_json[1])["verdict"] == verdict


def test_diff_with_a_saved_plan(tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    saved.write_text(api.explain(api.compile_file(FIGURE_3), "json"))
    assert braid("diff", saved, FIGURE_3) == (0, "no changes\n", "")


def test_diff_with_what_a_home_runs(edited, tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    path = edited("LEFT OUTER", "INNER")
    code, _, err = braid("diff", path, "--home", home.root)
    assert (code, "there is no home" in err) == (2, True)
    application = home.application("sample_app")
    write_json(application.plan_file, plan_to_json(api.compile_file(FIGURE_3).plan))
    assert braid("diff", path, "--home", home.root) == braid("diff", FIGURE_3, path)
    assert braid("diff", FIGURE_3, "--home", home.root) == (0, "no changes\n", "")
    other = edited("sample_app", "other_app", "other.sql")
    code, _, err = braid("diff", other, "--home", home.root)
    assert code == 2
    assert "'other_app' has not run here" in err
    assert "applications that have: sample_app" in err


def test_diff_with_an_application_whose_first_start_was_refused(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    with home.application("sample_app").running():
        pass
    code, out, err = braid("diff", FIGURE_3, "--home", home.root)
    assert (code, out) == (2, "")
    assert "'sample_app' has not run here" in err
    assert "applications that have: none" in err


def test_diff_with_a_home_compares_options_as_run(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    application = home.application("sample_app")
    plan = api.compile_file(FIGURE_3).plan
    write_json(application.plan_file, plan_to_json(plan))
    ran = parse_options({**dict(plan.options), "slack": "2 minutes"})
    write_options(application, ran, ["slack"])
    code, out, _ = braid("diff", FIGURE_3, "--home", home.root)
    assert code == 0
    assert "note: slack = 2 minutes was set at the last start" in out
    assert "option slack: changed, 2 min -> 1 min" in out


def test_diff_takes_two_programs_or_one_and_a_home(tmp_path: Path) -> None:
    for arguments in ([FIGURE_3] * 3, [FIGURE_3, FIGURE_3, "--home", tmp_path]):
        code, _, err = braid("diff", *arguments)
        assert code == 2
        assert "give two programs, or one and the home" in " ".join(err.split())


def test_diff_of_a_program_that_does_not_compile(edited) -> None:
    code, _, err = braid("diff", FIGURE_3, edited("SELECT", "SELCT"))
    assert code == 2
    assert "PQL" in err


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_unreadable_files(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "app.sql"
    if content is not None:
        path.write_bytes(content)
    code, _, err = braid("check", path)
    assert code == 1
    assert "app.sql" in err
