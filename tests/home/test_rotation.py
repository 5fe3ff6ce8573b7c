"""Files that grow by lines: bounded in size, and read across their generations."""

from __future__ import annotations

from pathlib import Path

from braid.home.rotation import GENERATIONS, generations, rotate, rotate_open


def test_a_full_file_makes_room_and_is_read_with_the_older_ones(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for number in range(100):
        rotate(path, full=20)
        with path.open("a") as file:
            file.write(f"{number:03d}\n")
    lines = [line for each in generations(path) for line in each.read_text().split()]
    assert lines == [f"{number:03d}" for number in range(100 - len(lines), 100)]
    assert len(generations(path)) == 1 + GENERATIONS == len(list(tmp_path.iterdir()))
    assert all(each.stat().st_size <= 20 for each in generations(path))


def test_a_file_that_somebody_writes_goes_on_after_it_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"a" * 30)
        assert rotate_open(path, full=20)
        assert not rotate_open(path, full=20)
        writer.write(b"b")
    assert path.read_bytes() == b"b"
    assert [each.stat().st_size for each in generations(path)] == [30, 1]


def test_what_is_not_there_is_not_full(tmp_path: Path) -> None:
    assert not rotate(tmp_path / "lines")
    assert generations(tmp_path / "lines") == []
