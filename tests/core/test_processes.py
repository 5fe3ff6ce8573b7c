from __future__ import annotations

import os
import subprocess
import sys

from braid.core.processes import began


def test_a_process_is_known_as_long_as_it_is_there() -> None:
    first, second = (subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in "ab")
    try:
        known = began(first.pid)
        assert known is not None
        assert known == began(first.pid)
        assert began(os.getpid()) not in (None, known)
    finally:
        first.kill()
        second.kill()
        assert first.stdin is not None
        first.stdin.close()
    # It is gone as soon as it has ended, though nobody has asked how.
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
    assert began(first.pid) is None
    for process in (first, second):
        process.wait()
    assert began(first.pid) is None
