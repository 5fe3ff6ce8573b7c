"""A service with several loops: all begin and end with it, and it is well if all of them are."""

from __future__ import annotations

import threading

from fastapi.testclient import TestClient

from braid.core.errors import RunError
from braid.service.loops.base import Loop
from tests.service.conftest import Tried


class Another(Loop):
    """A loop that fails from when it is told to."""

    name = "another"
    failing = False

    def turn(self) -> None:
        self.taken.set()
        if self.failing:
            raise RunError("a disk is full")

    def wait(self) -> None:
        """Wait for two turns: the first may have begun before."""
        for _ in range(2):
            self.taken.clear()
            self.hurry()
            assert self.taken.wait(20)

    taken: threading.Event


def test_all_loops_begin_and_end_with_the_service(tried: Tried) -> None:
    state = tried.state
    loop = Another(state.supervise._log, 0.01)
    loop.taken = threading.Event()
    state.others.append(loop)
    assert not state.is_well
    with TestClient(tried.app, base_url="http://127.0.0.1") as http:
        loop.wait()
        assert http.get("/api/v1/health").json() == {"well": True}
        loop.failing = True
        loop.wait()
        assert http.get("/api/v1/health").json() == {"well": False}
    assert not any(one.is_alive for one in state.loops)
