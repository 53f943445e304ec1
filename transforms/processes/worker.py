"""A worker process that survives crashes of the functions it runs."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

from beam_tfrecords.errors import BuildError, SampleError
from transforms.processes.process_setup import prepare_process

_CONTEXT = multiprocessing.get_context("forkserver")
_server_lock = threading.Lock()


class WorkerDiedError(Exception):
    """The worker process ended during a call; the message says how."""


class WorkerTimeoutError(Exception):
    """The worker process did not answer in time and was killed."""


class Worker:
    """Calls functions in another process, which is started when first needed and again after it died."""

    def __init__(self) -> None:
        self._process: Any = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float | None = None) -> Any:
        """Calls a function and returns its result.

        Args:
          function: importable, or built of what is (a dataclass, a partial).
          timeout: seconds that the call may take; None for no limit.

        Raises:
          RuntimeError: the function raised anything else; the message is its traceback.
          WorkerDiedError: the process ended, or this worker is closed.
          WorkerTimeoutError: the call took longer than `timeout`.
        """
        connection = self._connection or self._start()
        try:
            connection.send((function, arguments))
            if not connection.poll(timeout):
                self._stop()
                raise WorkerTimeoutError(f"no answer within {timeout:g} seconds")
            outcome = connection.recv()
        except (EOFError, ConnectionError) as error:
            raise WorkerDiedError(self._stop()) from error
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
            start_fork_server()
            self._connection, theirs = _CONTEXT.Pipe()
            self._process = _CONTEXT.Process(target=_serve, args=(theirs, dict(os.environ)))
            with _without_main():
                self._process.start()
            # Otherwise an interpreter that exits would wait for a worker that nobody has closed.
            weakref.finalize(self, self._process.kill)
        theirs.close()
        return self._connection

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


def start_fork_server() -> None:
    """Starts the server that workers are forked from, and returns while it still imports what they need."""
    with _server_lock:
        multiprocessing.set_forkserver_preload(["transforms.processes.preload"])
        # Started first, because it resets the signal mask.
        multiprocessing.resource_tracker.ensure_running()
        # Ctrl-C reaches every process of a terminal, and systemd's SIGTERM every process of a service; the server and
        # its workers end with this process instead.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        # Without it, the server would look for modules in the user's working folder first.
        safe_path = os.environ.get("PYTHONSAFEPATH")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            multiprocessing.forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            del os.environ["PYTHONSAFEPATH"]
            if safe_path is not None:
                os.environ["PYTHONSAFEPATH"] = safe_path


def _serve(connection: Connection, environment: Mapping[str, str]) -> None:
    # The fork server has the environment of the moment when it was started.
    os.environ.clear()
    os.environ.update(environment)
    prepare_process()
    while True:
        try:
            function, arguments = connection.recv()
        except (EOFError, ConnectionError):  # the parent closed the connection, or ended
            return
        try:
            outcome = function(*arguments)
        except (SampleError, BuildError) as error:
            outcome = error
        except Exception:  # a bug: the parent raises it
            outcome = RuntimeError(traceback.format_exc())
        try:
            connection.send(outcome)
        except ConnectionError:  # the parent ended meanwhile
            return
