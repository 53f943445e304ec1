"""The process that workers are forked from: imports the modules of workers once, then forks one for each request.

It has a single thread, because a lock that another thread holds at a fork would stay locked in the worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from beam_tfrecords.transforms.processes.descendants import find_children, kill_with_descendants

# Makes the kernel give this process the orphans of its descendants (prctl(2)).
_SET_CHILD_SUBREAPER = 36
# Bytes of a number that the server sends: that of a process, or its exit code.
NUMBER_BYTES = 4
_MOST_FILES = 8
_is_worker = False


def is_worker() -> bool:
    """Whether a server has forked this process, so that its launcher receives its results."""
    return _is_worker


def serve(requests: int, alive: int, modules: Sequence[str], work: Callable[..., None]) -> None:
    """Forks a process for each request until the launcher ends.

    A request is a byte with file descriptors: first the one that receives the number of the process, or the negative
    number of an error, and later its exit code; then those that the process receives.

    Args:
      requests: file descriptor of a socket.
      alive: file descriptor of a pipe that ends with the launcher; for the processes.
      modules: modules to import if they exist.
      work: called in each process, with `alive` and the file descriptors of its request.
    """
    for file in (requests, alive):
        os.set_inheritable(file, False)
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _detach()
    if adopt := getattr(ctypes.CDLL(None), "prctl", None):  # macOS has none
        adopt(_SET_CHILD_SUBREAPER, 1)
    ended, waking = os.pipe()
    for pipe in (ended, waking):
        os.set_blocking(pipe, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    statuses: dict[int, int] = {}
    with socket.socket(fileno=requests) as asked:
        poll = select.poll()
        for file in (requests, ended):
            poll.register(file, select.POLLIN)
        while True:
            ready = [file for file, _ in poll.poll()]
            if ended in ready:
                os.read(ended, 1 << 12)
                _report_ends(statuses)
            if requests in ready:
                _, files, *_ = socket.recv_fds(asked, 1, _MOST_FILES)
                if not files:
                    return
                for file in files:
                    os.set_inheritable(file, False)
                status, *given = files
                _fork(functools.partial(work, alive, *given), given, status, statuses, others=(requests, ended, waking))


def _detach() -> None:
    """Detaches this process and its workers from the launcher's error output, so that its reader reaches its end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.close(nowhere)


def _fork(
    work: Callable[[], None], given: Sequence[int], status: int, statuses: dict[int, int], *, others: Sequence[int]
) -> None:
    """Forks a process, and reports its number."""
    try:
        process = os.fork()
    except OSError as error:
        process = -(error.errno or 1)
    if process == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file in (status, *others, *statuses.values()):
            os.close(file)
        _run(work)
    for file in given:
        os.close(file)
    _send(status, process)
    if process > 0:
        statuses[process] = status
    else:
        os.close(status)


def _run(work: Callable[[], None]) -> NoReturn:
    global _is_worker
    _is_worker = True
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def _report_ends(statuses: dict[int, int]) -> None:
    """Reports the exit codes of the processes that have ended, and kills what they have left behind."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if (status := statuses.pop(found[0], None)) is None:  # an orphan
                continue
            for orphan in find_children() - statuses.keys():
                kill_with_descendants(orphan)
            _send(status, os.waitstatus_to_exitcode(found[1]))
            os.close(status)


def _send(file: int, number: int) -> None:
    with contextlib.suppress(ConnectionError):  # the launcher has closed the file
        os.write(file, number.to_bytes(NUMBER_BYTES, sys.byteorder, signed=True))
