"""Worker processes that survive crashes of the functions they run, and a pool of them on this machine.

The standard streams of a worker's process lead nowhere, so that a process that a worker leaves behind keeps no
terminal, pipe or log file of the launcher open.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import io
import logging
import logging.handlers
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, SampleError
from beam_tfrecords.transforms.processes.descendants import kill_group, kill_with_descendants
from beam_tfrecords.transforms.processes.fork_server import start_process

# Python's name of a standard stream -> its file descriptor.
_STREAMS = {"stdout": 1, "stderr": 2}
_log = logging.getLogger(__name__)

# By default, glibc returns large blocks to the system at every free, and gets zeroed blocks for the next image. With
# these limits (malloc.h), a process keeps memory for one image and one part, but still returns that of a huge image.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = {_M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 64 << 20}


class Printed(NamedTuple):
    """Text that a worker has printed to the standard stream of this name."""

    stream: str
    text: str

    def show(self) -> None:
        """Prints the text. Ignores errors of the stream, because the function that prints is not at fault."""
        with contextlib.suppress(Exception):
            stream = getattr(sys, self.stream)
            stream.write(self.text)
            stream.flush()


class Reply(logging.handlers.QueueHandler):
    """The worker's end of a connection: sends printed text and log records as they come, and results."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)  # type: ignore[arg-type]
        self._connection, self._process = connection, os.getpid()

    def send(self, message: Any) -> None:
        """Sends a message.

        Raises:
          ConnectionError: the launcher has ended.
        """
        assert self.lock is not None
        with self.lock:
            self._connection.send(message)

    def enqueue(self, record: logging.LogRecord | Printed) -> None:
        """Sends a log record, as `logging` calls this method, or printed text.

        Nothing is sent from a fork of the worker, whose message could land in the middle of another one.
        """
        if os.getpid() == self._process:
            self.send(record)


class _Sender(io.BufferedIOBase):
    """The bytes of a standard stream, which the worker sends as text."""

    def __init__(self, stream: str, reply: Reply) -> None:
        self._stream, self._reply = stream, reply

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return _STREAMS[self._stream]

    def write(self, data: Any) -> int:
        self._reply.enqueue(Printed(self._stream, bytes(data).decode(errors="backslashreplace")))
        return len(data)


def take_output(reply: Reply) -> None:
    """Makes this process, a worker, send what Python prints to the launcher."""
    for name in _STREAMS:
        setattr(sys, name, io.TextIOWrapper(_Sender(name, reply), "utf-8", "backslashreplace", line_buffering=True))


def flush_output() -> None:
    """Flushes Python's standard streams."""
    for name in _STREAMS:
        with contextlib.suppress(Exception):  # the user's function may have closed or replaced a stream
            getattr(sys, name).flush()


def log_levels() -> Mapping[str, int]:
    """Returns the levels that this process has set for its loggers: name -> level; "" is the root logger."""
    loggers = {**logging.root.manager.loggerDict, "": logging.root}
    levels = {name: logger.level for name, logger in loggers.items() if isinstance(logger, logging.Logger)}
    disabled = logging.root.manager.disable
    return {name: max(level, disabled + 1) for name, level in levels.items() if level or not name}


def take_log(reply: Reply, levels: Mapping[str, int]) -> None:
    """Makes this process, a worker, send its log records to the launcher, with the launcher's levels."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.root.handlers = [reply]


@functools.cache
def prepare_process() -> None:
    """Prepares this process for converting images, without an effect on results. Further calls do nothing."""
    import cv2

    # One process per core already uses every core; OpenCV's own threads would only compete.
    cv2.setNumThreads(1)
    # Pillow warns about odd TIFF tags and invalid APNGs, which either are harmless or fail anyway.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    # These logs do not name the file, but the failure of the sample does.
    logging.getLogger("PIL").setLevel(logging.CRITICAL)
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    # Excludes imported modules from garbage collection; scanning them repeatedly took 5% of the time of a build.
    gc.freeze()
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # macOS has another allocator
        for option, size in _KEPT_BYTES.items():
            set_option(option, size)


# Advice for a worker that was killed.
OUT_OF_MEMORY = (
    "the system kills a process when memory runs out; allow more, or set less with `max_image_memory` or "
    "--direct_num_workers; the same command resumes"
)


class _Attempt(threading.local):
    is_second = False


_attempt = _Attempt()


def is_second_attempt() -> bool:
    """Whether a process of the pool has already died during the same call."""
    return _attempt.is_second


class WorkerDiedError(Exception):
    """The worker process ended during a call; the message says how."""

    @property
    def is_killed(self) -> bool:
        """Whether the system killed the process, as it does when memory runs out, instead of the code in it."""
        return str(self) == signal.SIGKILL.name

    @property
    def may_be_killed(self) -> bool:
        """Whether the process or its server was killed. Without its server, its exit code is reported as 255."""
        return self.is_killed or str(self) == "exit code 255"


class WorkerTimeoutError(Exception):
    """The worker process was killed because it did not answer in time."""


class _Running:
    """A running worker process, from the launcher's side."""

    def __init__(self, *, nice: int) -> None:
        self._launcher = os.getpid()
        self.connection, theirs = multiprocessing.Pipe()
        told = log_levels(), dict(os.environ), _folder(), [*sys.path], [*sys.argv], storage.current_options(), nice
        try:
            self._process = start_process([theirs.fileno()])
            self.connection.send(told)
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()
        self.number = self._process.number
        # The connection does not show the end of the process, because forks of the process keep it open.
        self._end = self._process.sentinel

    def receive(self, timeout: float | None) -> Any:
        """Returns the next result of the process; prints and logs its earlier output.

        Args:
          timeout: seconds; None for no limit.

        Raises:
          EOFError, ConnectionError: the process has ended.
          WorkerTimeoutError: the process has not answered in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left < 0:
                raise WorkerTimeoutError(f"no answer within {timeout:g} seconds")
            ready = wait([self.connection, self._end], left)
            if self.connection in ready:
                message = self.connection.recv()
                if isinstance(message, Printed):
                    message.show()
                elif isinstance(message, logging.LogRecord):
                    logging.getLogger(message.name).handle(message)
                else:
                    return message
            elif ready:
                raise EOFError

    def kill(self) -> None:
        """Kills the process and its descendants if it still runs. Works from any thread, but does nothing in a fork."""
        if os.getpid() == self._launcher and not wait([self._end], 0):
            kill_with_descendants(self.number)

    def end(self) -> str:
        """Kills the process and its remaining descendants, and returns how the process ended."""
        self.kill()
        # Kills descendants that outlive the process.
        kill_group(self.number)
        self.connection.close()
        code = self._process.find_exit_code()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class Worker:
    """Calls functions in another process, which is started at the first call and again after it died.

    Killing the process also kills its descendants. This process prints and logs the output of the other one.

    Args:
      nice: niceness of the process, as in nice(2).
    """

    def __init__(self, *, nice: int = 0) -> None:
        self._nice = nice
        self._running: _Running | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        timeout: float | None = None,
        is_second: bool = False,
    ) -> Any:
        """Calls a function and returns its result; adds its request metrics to the metrics of this process.

        Args:
          function: an importable function, or a dataclass or partial made of importable objects.
          timeout: seconds that the call may take; None for no limit.
          is_second: whether a process has already died during the same call; the function reads it by
            `is_second_attempt`.

        Raises:
          SampleError: the function raised it.
          BuildError: the function raised it, or the process cannot be started.
          RuntimeError: the function raised any other error; the message is its traceback.
          WorkerDiedError: the process ended, or this worker is closed.
          WorkerTimeoutError: the call took longer than `timeout`.
        """
        running = self._running or self._start()
        try:
            running.connection.send((function, arguments, is_second))
            outcome, request_metrics = running.receive(timeout)
        except (EOFError, ConnectionError) as error:
            raise WorkerDiedError(self._stop(running)) from error
        except WorkerTimeoutError:
            self._stop(running)
            raise
        storage.add_request_metrics(request_metrics)
        if isinstance(outcome, SampleError | BuildError | RuntimeError):
            raise outcome
        return outcome

    def close(self) -> None:
        """Kills the process, from any thread; a call in progress raises `WorkerDiedError`."""
        with self._lock:
            self._is_closed = True
            if self._running is not None:
                self._running.kill()

    def _start(self) -> _Running:
        with self._lock:
            if self._is_closed:
                raise WorkerDiedError("it was closed")
            try:
                running = _Running(nice=self._nice)
            except (OSError, EOFError) as error:
                why = str(error) or "the system ends it at once"
                raise BuildError(f"no worker process can be started: {why}; the same command resumes") from error
            # Otherwise a process of a worker that is never closed would briefly outlive this process.
            weakref.finalize(self, running.kill)
            self._running = running
        _log.debug("started worker process %d", running.number)
        return running

    def _stop(self, running: _Running) -> str:
        """Kills the process; returns how it ended."""
        with self._lock:
            self._running = None
        how = running.end()
        _log.debug("worker process %d ended: %s", running.number, how)
        return how


def _folder() -> str:
    """Returns the working folder, for relative paths in functions of users; the root if it is gone."""
    with contextlib.suppress(OSError):
        return os.getcwd()
    return "/"


def _end_with_launcher(alive: int) -> None:
    """Ends this process when the launcher has ended, even during a read that hangs."""
    os.read(alive, 1)
    kill_with_descendants(os.getpid())


def _ignore_termination() -> None:
    """Makes this process, but not its descendants, ignore the SIGTERM that systemd sends to all processes of a service.

    The server has blocked the signal. Descendants inherit a blocked signal, so a pool in the user's function could not
    end its processes.
    """
    signals = (signal.SIGINT, signal.SIGTERM)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)

    def stop_ignoring() -> None:
        for number in signals:
            signal.signal(number, signal.SIG_DFL)
        unblock()

    for number in signals:
        # A handler instead of SIG_IGN, because exec resets handlers to the default.
        signal.signal(number, lambda *_: None)
        signal.siginterrupt(number, False)
    # Blocks signals during a fork until the child has the default handlers.
    block = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK, signals)
    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=stop_ignoring)
    unblock()


def serve(alive: int, connection_file: int) -> None:
    """Calls the functions that the launcher sends until it closes the connection. A forked process starts here.

    Args:
      alive: file descriptor of a pipe that ends with the launcher.
      connection_file: file descriptor of the connection to the launcher.
    """
    # Its own process group lets the launcher find its descendants, and keeps signals of the terminal away.
    os.setpgid(0, 0)
    _ignore_termination()
    connection: Connection = Connection(connection_file)
    levels, environment, folder, path, arguments, options, nice = connection.recv()
    reply = Reply(connection)
    take_output(reply)
    take_log(reply, levels)
    os.nice(nice)
    # The fork server still has the environment and the folder from its own start.
    with contextlib.suppress(OSError):
        os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:], sys.argv[:] = path, arguments
    storage.set_options(options)
    threading.Thread(target=_end_with_launcher, args=(alive,), daemon=True, name="watch launcher").start()
    prepare_process()
    # When memory runs out, the kernel kills a worker first, so that the launcher survives to report it (proc(5)).
    with contextlib.suppress(OSError):
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(int(score.read_text()) + 400, 1000)))
    while True:
        try:
            function, given, is_second = connection.recv()
        except (EOFError, OSError):  # the parent closed the connection or ended, maybe in the middle of a message
            return
        _attempt.is_second = is_second
        try:
            outcome = function(*given)
        except (SampleError, BuildError) as error:
            outcome = error
        except Exception:  # a bug: the parent raises it
            outcome = RuntimeError(traceback.format_exc())
        flush_output()
        try:
            reply.send((outcome, storage.take_request_metrics()))
        except ConnectionError:  # the parent ended meanwhile
            return


# Niceness of processes beyond the cores. Processes with equal priority would finish their blocks at the same time and
# wait for the store together, which cost 4% of a build from bucket to bucket at 20 ms per request.
_NICE = 3


class WorkerPool:
    """Calls functions in worker processes; each process takes the next call when it has finished one.

    Args:
      processes: number of workers; each starts at its first call. Workers beyond the cores run with lower priority.
    """

    def __init__(self, processes: int) -> None:
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="pool")
        cores = usable_cores()
        self._workers = [Worker(nice=0 if number < cores else _NICE) for number in range(processes)]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Calls a function as `Worker.call` does; retries once if the process dies."""
        return self._threads.submit(self._call, function, *arguments)

    def close(self) -> None:
        """Kills the workers at once, without waiting."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        worker = self._idle.get()
        try:
            with contextlib.suppress(WorkerDiedError):
                return worker.call(function, *arguments)
            return worker.call(function, *arguments, is_second=True)
        except WorkerDiedError as error:
            why = f"; {OUT_OF_MEMORY}" if error.is_killed else ""
            raise BuildError(f"a worker process ended twice at the same work: {error}{why}") from error
        finally:
            self._idle.put(worker)


def usable_cores() -> int:
    """Returns the number of cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
