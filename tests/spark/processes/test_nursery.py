"""Processes from the nursery are what Python itself would have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from braid.spark.processes import nursery
from braid.spark.processes.nursery import launcher

SHOW = """
import os, sys
print(sys.argv, os.environ.get("MARK"), os.getcwd(), sys.stdin.read(), "numpy" in sys.modules)
print("to the other stream", file=sys.stderr)
sys.exit(7)
"""
WAIT = """
import os, sys, time
print(os.getpid(), flush=True)
time.sleep(600)
"""
LIMIT = 60.0
"""Seconds that nothing here takes, on whatever machine."""


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    """The launcher of a nursery of its own; other tests' Spark may have one in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nursery, "_started", {})
        patch.setattr(nursery, "_running", [])
        found = launcher(sys.executable, {})
        yield found
        (running,) = nursery._running
        assert running.stdin is not None
        running.stdin.close()
        try:
            assert running.wait(30) == 0
        finally:
            running.kill()
        assert not Path(found).exists()


@contextmanager
def waiting(python: str) -> Iterator[subprocess.Popen[str]]:
    """A process that tells its number and waits; what is left of it is killed."""
    with subprocess.Popen([python, "-c", WAIT], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(pid: int) -> bool:
    try:
        psutil.Process(pid).wait(30)
    except psutil.NoSuchProcess:
        return True
    return True


def test_it_has_arguments_variables_folder_streams_and_exit_code(python: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [python, "-c", SHOW, "one", "a b"],
        input="given",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"MARK": "a=b"},
        timeout=LIMIT,
    )
    assert done.stdout == f"['-c', 'one', 'a b'] a=b {tmp_path} given True\n"
    assert done.stderr == "to the other stream\n"
    assert done.returncode == 7


def test_modules_run_as_the_main_one(python: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys; print(__name__, sys.argv[1:]); raise SystemExit('wrong')")
    done = subprocess.run(
        [python, "-m", "mine", "x"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
        timeout=LIMIT,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("__main__ ['x']\n", "wrong\n", 1)


def test_an_error_is_shown_with_its_place(python: str) -> None:
    done = subprocess.run([python, "-c", "1 / 0"], capture_output=True, text=True, timeout=LIMIT)
    assert "ZeroDivisionError" in done.stderr
    assert done.returncode == 1


def test_other_options_are_left_to_python(python: str) -> None:
    done = subprocess.run([python, "--version"], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == f"Python {sys.version.split()[0]}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ending_the_launcher_ends_the_process(python: str, number: signal.Signals) -> None:
    with waiting(python) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert pid != process.pid
        process.send_signal(number)
        assert process.wait(30) in (-signal.SIGKILL, 128 + signal.SIGHUP)
        assert ended(pid)


def test_a_request_to_end_that_the_whole_machine_gets_ends_nothing(python: str) -> None:
    (running,) = nursery._running
    with waiting(python) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        everyone = [str(one) for one in (process.pid, pid, running.pid)]
        # Not from this process, which has started the launcher.
        subprocess.run(["kill", "-TERM", *everyone], check=True, timeout=LIMIT)
        done = subprocess.run([python, "-c", "print(1)"], capture_output=True, text=True, timeout=LIMIT)
        assert done.stdout == "1\n"
        assert (process.poll(), running.poll()) == (None, None)


def test_what_handles_that_request_itself_is_spared_it(python: str) -> None:
    handles = WAIT.replace(
        "print(", "import signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(1)); print("
    )
    with subprocess.Popen([python, "-c", handles], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            subprocess.run(["kill", "-TERM", str(pid)], check=True, timeout=LIMIT)
            assert signal.SIGTERM in pending(pid)
            assert process.poll() is None
        finally:
            process.kill()


def pending(pid: int) -> set[int]:
    """Signals that wait until a process takes them."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = sum(
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))
    )
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_an_interrupt_from_the_keyboard_ends_nothing(python: str) -> None:
    (running,) = nursery._running
    with waiting(python) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        for interrupted in (process.pid, pid, running.pid):
            os.kill(interrupted, signal.SIGINT)
        done = subprocess.run([python, "-c", "print(1)"], capture_output=True, text=True, timeout=LIMIT)
        assert done.stdout == "1\n"
        assert (process.poll(), running.poll()) == (None, None)


@pytest.mark.parametrize("obstacle", ["long", "forbidden"])
def test_where_there_can_be_no_nursery_python_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    folder = tmp_path / ("x" * (100 if obstacle == "long" else 1))
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(nursery, "_started", {})
    if obstacle == "forbidden":
        monkeypatch.setattr(os, "access", lambda *_: False)
    assert launcher(sys.executable, {}) == sys.executable
    assert list(folder.iterdir()) == []


def test_a_killed_process_is_told_as_such(python: str) -> None:
    with waiting(python) as process:
        assert process.stdout is not None
        os.kill(int(process.stdout.readline()), signal.SIGKILL)
        assert process.wait(30) == 128 + signal.SIGKILL


def test_many_at_once(python: str) -> None:
    started = [
        subprocess.Popen([python, "-c", f"print({number})"], stdout=subprocess.PIPE, text=True)
        for number in range(20)
    ]
    try:
        said = [process.communicate(timeout=LIMIT)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert said == [f"{number}\n" for number in range(20)]


def test_without_a_nursery_python_is_started(tmp_path: Path) -> None:
    command = [sys.executable, "-IS", str(Path(nursery.__file__).with_name("launch.py"))]
    done = subprocess.run(
        [*command, str(tmp_path / "none"), sys.executable, "-c", "import sys; print('numpy' in sys.modules)"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.stdout == "False\n"
