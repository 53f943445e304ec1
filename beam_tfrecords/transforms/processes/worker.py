"""A worker process that survives crashes of the functions it runs."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import sys
import tempfile
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, SampleError
from beam_tfrecords.transforms.processes import optional_libraries
from beam_tfrecords.transforms.processes.process_setup import prepare_process

_CONTEXT = multiprocessing.get_context("forkserver")
_server_lock = threading.Lock()
# Bytes: the address of a socket has 104 at most (macOS), and multiprocessing's sockets have names of this length.
_LONGEST_FOLDER = 104 - len("/pymp-12345678/listener-12345678") - 1
# What to do about a worker that was killed.
OUT_OF_MEMORY = (
    "the system kills a process when memory runs out; allow more, or say less with `max_image_memory` or "
    "--direct_num_workers; the same command resumes"
)


class _Attempt(threading.local):
    is_second = False


_attempt = _Attempt()


class _Started:
    """What holds for workers that start now."""

    leaves_out = False


def is_second_attempt() -> bool:
    """Whether the process of a pool that was called before with the same died of it."""
    return _attempt.is_second


class WorkerDiedError(Exception):
    """The worker process ended during a call; the message says how."""

    @property
    def is_killed(self) -> bool:
        """Whether the system ended it, as it does when memory runs out, and not what it was running."""
        return str(self) == signal.SIGKILL.name

    @property
    def may_be_killed(self) -> bool:
        """Whether it was killed, or its server, which knew how it ended (multiprocessing says 255 then)."""
        return self.is_killed or str(self) == "exit code 255"


class WorkerTimeoutError(Exception):
    """The worker process did not answer in time and was killed."""


class Worker:
    """Calls functions in another process, which is started when first needed and again after it died.

    Args:
      nice: how far the process yields to others, as in nice(2).
    """

    def __init__(self, *, nice: int = 0) -> None:
        self._nice = nice
        self._process: Any = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        timeout: float | None = None,
        is_second: bool = False,
    ) -> Any:
        """Calls a function and returns its result; what it asked object stores for is counted here.

        Args:
          function: importable, or built of what is (a dataclass, a partial).
          timeout: seconds that the call may take; None for no limit.
          is_second: whether a process has died of the same call, which `is_second_attempt` tells the function.

        Raises:
          BuildError: raised by the function, or the process cannot be started.
          RuntimeError: the function raised anything else; the message is its traceback.
          WorkerDiedError: the process ended, or this worker is closed.
          WorkerTimeoutError: the call took longer than `timeout`.
        """
        connection = self._connection or self._start()
        try:
            connection.send((function, arguments, is_second))
            if not connection.poll(timeout):
                self._stop()
                raise WorkerTimeoutError(f"no answer within {timeout:g} seconds")
            outcome, traffic = connection.recv()
        except (EOFError, ConnectionError) as error:
            raise WorkerDiedError(self._stop()) from error
        storage.add_traffic(traffic)
        if isinstance(outcome, SampleError | BuildError | RuntimeError):
            raise outcome
        return outcome

    def close(self) -> None:
        """Kills the process, from any thread; a call in progress raises `WorkerDiedError`."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def _start(self) -> Connection:
        with self._lock:
            if self._is_closed:
                raise WorkerDiedError("it was closed")
            try:
                start_fork_server()
                connection, theirs = _CONTEXT.Pipe()
                told = (theirs, dict(os.environ), storage.current_options(), _Started.leaves_out, self._nice)
                process = _CONTEXT.Process(target=_serve, args=told)
                with _without_main():
                    process.start()
            except (OSError, EOFError) as error:
                # Its socket is among the temporary files.
                where = f"{tempfile.gettempdir()} has to stay as it is while a build runs"
                why = where if isinstance(error, FileNotFoundError) else str(error) or "the system ends it at once"
                raise BuildError(f"no worker process can be started: {why}; the same command resumes") from error
            # Otherwise an interpreter that exits would wait for a worker that nobody has closed.
            weakref.finalize(self, process.kill)
            self._process, self._connection = process, connection
        theirs.close()
        return connection

    def _stop(self) -> str:
        """Kills the process; returns how it ended."""
        with self._lock:
            process, self._process = self._process, None
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        process.kill()
        process.join()
        return signal.Signals(-process.exitcode).name if process.exitcode < 0 else f"exit code {process.exitcode}"


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """A new process would import the user's script again, which may have no `if __name__ == "__main__":`."""
    with _server_lock:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextlib.contextmanager
def without_optional_libraries(*, if_ours: bool = True) -> Iterator[None]:
    """Within it, workers that start do without `optional_libraries`.

    Args:
      if_ours: whether they call no function of the user, which may need them; otherwise nothing changes.
    """
    before, _Started.leaves_out = _Started.leaves_out, if_ours
    try:
        yield
    finally:
        _Started.leaves_out = before


def start_fork_server(*modules: str) -> None:
    """Starts the server that workers are forked from, and returns while it still imports what they need.

    Args:
      modules: that it imports besides, if they are there.
    """
    with _server_lock:
        multiprocessing.set_forkserver_preload(["beam_tfrecords.transforms.processes.preload", *modules])
        # Started first, because it resets the signal mask.
        multiprocessing.resource_tracker.ensure_running()
        # Ctrl-C reaches every process of a terminal, and systemd's SIGTERM every process of a service; the server and
        # its workers end with this process instead.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        # Without it, the server would look for modules in the user's working folder first.
        safe_path = os.environ.get("PYTHONSAFEPATH")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            with _short_temporary_folder():
                multiprocessing.forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            del os.environ["PYTHONSAFEPATH"]
            if safe_path is not None:
                os.environ["PYTHONSAFEPATH"] = safe_path


@contextlib.contextmanager
def _short_temporary_folder() -> Iterator[None]:
    """Makes temporary files in /tmp if the path of the usual folder is too long for a socket in it."""
    earlier = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = earlier


def _end_with_launcher() -> None:
    """Ends this process when the launcher has ended, also in the middle of a read that gives no answer."""
    launcher = multiprocessing.parent_process()
    assert launcher is not None
    launcher.join()
    os._exit(1)


def _serve(
    connection: Connection,
    environment: Mapping[str, str],
    options: storage.StorageOptions,
    leaves_out: bool,
    nice: int,
) -> None:
    os.nice(nice)
    if leaves_out:
        optional_libraries.leave_out()
    # The fork server has the environment of the moment when it was started.
    os.environ.clear()
    os.environ.update(environment)
    storage.set_options(options)
    threading.Thread(target=_end_with_launcher, daemon=True, name="watch launcher").start()
    prepare_process()
    # If memory runs out, the kernel ends a worker before those that wait for it, which live to say so (proc(5)).
    with contextlib.suppress(OSError):
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(int(score.read_text()) + 400, 1000)))
    while True:
        try:
            function, arguments, is_second = connection.recv()
        except (EOFError, OSError):  # the parent closed the connection, or ended, also in the middle of a message
            return
        _attempt.is_second = is_second
        try:
            outcome = function(*arguments)
        except (SampleError, BuildError) as error:
            outcome = error
        except Exception:  # a bug: the parent raises it
            outcome = RuntimeError(traceback.format_exc())
        try:
            connection.send((outcome, storage.take_traffic()))
        except ConnectionError:  # the parent ended meanwhile
            return
