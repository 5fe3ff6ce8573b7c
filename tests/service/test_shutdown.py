"""A machine that is shut down: every process gets SIGTERM at once, and applications end at a micro-batch."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from braid.api.data import publish, read
from braid.home.paths import Home
from braid.home.service import DriverState
from braid.home.status import RunState, read_status
from tests.service.serving import WAIT, Served, until

pytestmark = pytest.mark.spark

BEGIN = 1_700_000_000
PROGRAM = """
CREATE APPLICATION clicks WITH (shards = 2, idle_timeout = '1 hour', latency = '1 second');
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
CREATE TABLE out AS SELECT l.id AS lid, r.id AS rid FROM l JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour' STORAGE SCRIBE(category = "out");
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path / "home")
    yield found
    found.close()


class Feed:
    """Pairs that arrive all the time, each of its own key."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._over = threading.Event()
        self.count = 0

    def publish(self) -> None:
        """Let some pairs arrive."""
        fresh = range(self.count, self.count + 20)
        for name in ("r", "l"):
            publish(name, [{"id": n, "t": BEGIN + n, "k": f"k{n}"} for n in fresh], self._home)
        self.count += 20

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let pairs arrive within the block."""

        def run() -> None:
            while not self._over.wait(0.2):
                self.publish()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def pairs(home: Home) -> list[tuple[int, int]]:
    """All pairs that have come out."""
    if not home.log().has("out"):
        return []
    rows = read("out", home)
    return sorted(zip(rows["lid"].to_pylist(), rows["rid"].to_pylist(), strict=True))


def session(leader: int) -> list[psutil.Process]:
    """All processes of a session."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError):
            if os.getsid(process.pid) == leader:
                found.append(process)
    return found


@pytest.mark.parametrize("more", [[], ["--pool", "small"]], ids=["alone", "pool"])
def test_a_signal_to_every_process_at_once_ends_at_a_micro_batch(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    program = tmp_path / "app.sql"
    program.write_text(PROGRAM)
    feed = Feed(served.home)
    served.start()
    feed.publish()
    served.braid("deploy", str(program), "--yes", *more)
    with feed.running():
        until(lambda: len(pairs(served.home)) > 20, "nothing comes out")
        driver = served.driver("clicks")
        assert driver is not None
        everyone = session(driver.pid)
        assert len(everyone) > 5  # the driver, Java, and Python processes
        for process in everyone:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)
        assert served.end() == 0
        left = psutil.wait_procs(everyone, timeout=WAIT)[1]
        assert left == []
    said = served.driver("clicks")
    assert said is not None
    assert (said.state, said.error) == (DriverState.ENDED, None)
    status = read_status(served.home.application("clicks"))
    assert status is not None
    assert status.state is RunState.STOPPED

    if more:
        monkeypatch.setenv("BRAID_STOP_APPLICATIONS", "true")
    served.start()
    wanted = [(n, n) for n in range(feed.count)]
    until(lambda: len(pairs(served.home)) >= len(wanted), "it does not come back")
    assert pairs(served.home) == wanted
    assert "failed" not in served.braid("events", "clicks")

    # Nor is anything lost if all of it ends with the service, or after it.
    feed.publish()
    assert served.end() == 0
    if not more:
        assert "ended: clicks" in served.braid("halt")
    said = served.driver("clicks")
    assert said is not None
    assert (said.state, said.error, said.told) == (DriverState.ENDED, None, True)
    out = pairs(served.home)
    assert out == sorted(set(out))
