"""What Spark starts in place of Python: asks the nursery for a process, and stands for it until it ends.

It is to be up within milliseconds, so it imports next to nothing, and nothing of the package.
"""

from __future__ import annotations

import _thread
import array
import os
import signal
import socket
import struct
import sys

NUMBER = struct.Struct("=i")
"""How lengths, process numbers and exit codes go over the socket."""


def ask(connection: socket.socket, arguments: list[str]) -> int:
    """Hand over arguments, environment, folder and standard streams; returns the process's number."""
    variables = [name + b"=" + value for name, value in os.environb.items()]
    words = [os.fsencode(word) for word in arguments]
    folder = os.getcwdb()  # noqa: PTH109, as pathlib takes longer to import than all the rest
    text = b"\0".join([folder, b"%d" % len(words), *words, *variables])
    streams = array.array("i", [0, 1, 2])
    connection.sendmsg([NUMBER.pack(len(text))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    connection.sendall(text)
    return read(connection)


def read(connection: socket.socket) -> int:
    """A number; EOFError when the nursery is gone."""
    data = b""
    while len(data) < NUMBER.size:
        part = connection.recv(NUMBER.size - len(data))
        if not part:
            raise EOFError
        data += part
    (number,) = NUMBER.unpack(data)
    return int(number)


def pass_on(pid: int) -> None:
    """Ask a process to end whenever Spark does; it ignores SIGTERM itself, which others send to everybody."""
    while True:
        if signal.sigwaitinfo([signal.SIGTERM]).si_pid == os.getppid():
            os.kill(pid, signal.SIGHUP)


def main(address: str, python: str, arguments: list[str]) -> int:
    """Stand for a process of the nursery; without one, or for what it cannot do, become Python."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whoever asks it to end may do so from the first word of its process on. Java passes the signal on
    # ignored, and such a one would not be waited for.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    handled = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        if len(arguments) < 2 or arguments[0] not in ("-m", "-c"):
            raise EOFError
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address)
        pid = ask(connection, arguments)
    except (OSError, EOFError):
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, handled)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execv(python, [python, *arguments])
    signal.signal(signal.SIGHUP, lambda received, _: os.kill(pid, received))
    _thread.start_new_thread(pass_on, (pid,))
    for stream in range(3):
        os.close(stream)
    try:
        code = read(connection)
    except (OSError, EOFError):
        return 1
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
