"""The process that workers are forked from, as the launcher sees it: starts it, and asks it for processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from typing import NamedTuple

from beam_tfrecords.transforms.processes.server import NUMBER_BYTES

# Modules that all workers need; the server imports them once.
_MODULES = ("blocks.convert_block", "listing.indexing", "shards.compose", "verifying.checks", "duplicates.groups")


class _ForkServer(NamedTuple):
    """A running server.

    Attributes:
      number: number of its process.
      requests: the launcher's end of the socket that takes requests.
      life: file descriptor; workers end when all copies of it are closed.
    """

    number: int
    requests: socket.socket
    life: int

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        try:
            return os.waitpid(self.number, os.WNOHANG) != (0, 0)
        except ChildProcessError:  # another thread has waited for it
            return True


_lock = threading.Lock()
# The server of this process, and earlier ones, whose workers may still run.
_servers: list[_ForkServer] = []
_modules = [f"beam_tfrecords.transforms.{name}" for name in _MODULES]


class ForkedProcess:
    """A process that the server has forked.

    Args:
      files: file descriptors that the process receives, in this order, as arguments of `worker.serve`.

    Attributes:
      number: number of the process.
      sentinel: file descriptor that becomes readable when the process or its server has ended.

    Raises:
      OSError, EOFError: the process cannot be started.
    """

    def __init__(self, files: Sequence[int]) -> None:
        self._status, theirs = Pipe(duplex=False)
        self.sentinel = self._status.fileno()
        with _lock:
            with contextlib.closing(theirs):
                socket.send_fds(_servers[-1].requests, [b"\0"], [theirs.fileno(), *files])
            number = self._receive()
        if number is None:
            raise EOFError
        if number < 0:
            raise OSError(-number, os.strerror(-number))
        self.number = number

    def find_exit_code(self) -> int:
        """Returns the exit code of the killed process; 255 if its server ended first, so that the code is unknown."""
        code = self._receive()
        return 255 if code is None else code

    def _receive(self) -> int | None:
        data = os.read(self.sentinel, NUMBER_BYTES)
        return int.from_bytes(data, sys.byteorder, signed=True) if data else None


def start_fork_server(*modules: str) -> None:
    """Starts the server. Returns without waiting for its imports.

    Args:
      modules: further modules for the server to import if they exist.
    """
    with _lock:
        _modules.extend(name for name in modules if name not in _modules)
        if not _servers or _servers[-1].has_ended():
            _servers.append(_start())


def start_process(files: Sequence[int]) -> ForkedProcess:
    """Starts a process that is forked from the server.

    Args:
      files: as in `ForkedProcess`.

    Raises:
      OSError, EOFError: the process cannot be started.
    """
    for pause in (0.1, 0.5, None):
        start_fork_server()
        try:
            return ForkedProcess(files)
        except (EOFError, ConnectionError):  # the server has ended, or is about to
            if pause is None:
                raise
            time.sleep(pause)
    raise AssertionError


def _start() -> _ForkServer:
    requests, theirs = socket.socketpair()
    alive, life = os.pipe()
    # The working folder is the user's, so the server does not search it for modules.
    path = [folder for folder in sys.path if folder]
    program = (
        f"import sys; sys.path[:] = {path!a}; from beam_tfrecords.transforms.processes import server, worker; "
        f"server.serve({theirs.fileno()}, {alive}, {_modules!a}, worker.serve)"
    )
    options = [f"-W{one}" for one in sys.warnoptions] + ["-B"] * sys.dont_write_bytecode
    # Ctrl-C reaches every process of a terminal, and systemd's SIGTERM every process of a service. The server and its
    # workers block both, and end with this process instead.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        process = subprocess.Popen(
            [sys.executable, *options, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            pass_fds=(theirs.fileno(), alive),
        )
    except BaseException:
        requests.close()
        os.close(life)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        os.close(alive)
    # The server ends by itself, and `has_ended` waits for it.
    process.returncode = 0
    return _ForkServer(process.pid, requests, life)


def _forget_servers() -> None:
    """Gives a fork of this process its own server, because it cannot wait for another process's child."""
    global _lock
    _lock = threading.Lock()
    while _servers:
        # Otherwise the servers and their workers would live as long as the fork.
        server = _servers.pop()
        server.requests.close()
        os.close(server.life)


# The lambda looks the function up at each fork, so that a test can replace it to share the server.
os.register_at_fork(after_in_child=lambda: _forget_servers())
