"""A process that calls functions, and that may die of it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from transforms.errors import BuildError, SampleError

# glibc gives large memory back at every free and asks for it again, zeroed, for the next image. What one
# image and one part need is kept instead; a huge image's memory still goes back. (malloc.h)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = {_M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 64 << 20}
_STDERR = 2
_THREADS, _DESCRIPTORS = "/proc/self/task", "/proc/self/fd"


class ChildDiedError(Exception):
    """The process ended while it was at work; the message says how."""


class ChildTimeoutError(Exception):
    """The process did not answer in time, and was ended."""


class Child:
    """Calls functions in another process, which is started when it is first needed and after it has died.

    It is a fork where this process has no second thread and no Beam yet: then it has imported at once what this
    one has. Beside threads forks are not safe, and with Beam come clients of object stores, whose connections
    two processes must not share; there it is a new interpreter. Not one of multiprocessing's start methods:
    spawn would import the parent's main module, and with it all of Beam.
    """

    def __init__(self) -> None:
        self._process: _Fork | subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def start(self) -> None:
        """Starts the process now, and leaves it waiting."""
        self._start()

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float | None = None) -> Any:
        """What the function returns.

        Args:
          function: importable, or built of what is (a dataclass, a partial).
          arguments: of the function.
          timeout: seconds that it may take; None for any time.

        Raises:
          SampleError: raised by the function.
          BuildError: raised by the function.
          RuntimeError: the function raised anything else; the message is its traceback.
          ChildDiedError: the process ended.
          ChildTimeoutError: it took longer than `timeout`.
        """
        try:
            connection = self._connection or self._start()
            connection.send((function, arguments))
            if not connection.poll(timeout):
                self.close()
                raise ChildTimeoutError(f"no answer within {timeout:g} seconds")
            outcome = connection.recv()
        except (EOFError, ConnectionError) as error:
            raise ChildDiedError(self._describe_death()) from error
        if isinstance(outcome, SampleError | BuildError | RuntimeError):
            raise outcome
        return outcome

    def close(self) -> None:
        """Ends the process."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None

    def _start(self) -> Connection:
        ours, theirs = multiprocessing.Pipe()
        if _may_fork():
            self._process = _Fork(theirs.fileno())
        else:
            # With `-m` the user's working folder would come first on the path, and with it its modules.
            program = (
                f"import sys; sys.path[:] = {sys.path!r}; from transforms.child import serve; serve(int(sys.argv[1]))"
            )
            command = [sys.executable, "-c", program, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self._connection = ours
        return ours

    def _describe_death(self) -> str:
        process, self._process = self._process, None
        self.close()
        code = process.wait() if process is not None else 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class _Fork:
    """A fork of this process that serves a connection; the methods are those of `subprocess.Popen`."""

    def __init__(self, descriptor: int) -> None:
        self._pid = os.fork()
        if not self._pid:
            _serve_forked(descriptor)

    def kill(self) -> None:
        """Ends it."""
        os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code, once it has ended; minus the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _may_fork() -> bool:
    return "apache_beam" not in sys.modules and os.path.isdir(_THREADS) and len(os.listdir(_THREADS)) == 1


def import_modules(*names: str) -> None:
    """Leaves modules imported that later calls need."""
    gc.disable()
    try:
        for name in names:
            importlib.import_module(name)
    finally:
        gc.enable()
    # They stay to the end. Looking through them again and again took 5% of the time of a build.
    gc.freeze()


def do_nothing(*_: Any) -> None:
    """Called with a function, it leaves what that function needs imported."""


def serve(descriptor: int) -> None:
    """The process itself: calls what it is sent until the connection is closed."""
    # Ctrl-C reaches every process of a terminal; this one ends with its parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    _keep_memory()
    connection = Connection(descriptor)
    while True:
        try:
            function, arguments = connection.recv()
        except (EOFError, ConnectionError):  # the parent has closed it, or has ended
            return
        try:
            outcome = function(*arguments)
        except (SampleError, BuildError) as error:
            outcome = error
        except Exception:  # a bug: the parent raises it
            outcome = RuntimeError(traceback.format_exc())
        try:
            connection.send(outcome)
        except ConnectionError:  # the parent has ended meanwhile
            return


def _serve_forked(descriptor: int) -> NoReturn:
    # It ends with its parent, and the parent's lock and its other connections with the parent as well.
    for other in map(int, os.listdir(_DESCRIPTORS)):
        if other > _STDERR and other != descriptor:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(other)
    try:
        serve(descriptor)
    except BaseException:  # nothing of the parent's must run here
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _keep_memory() -> None:
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # None on macOS, which has another allocator
        for option, size in _KEPT_BYTES.items():
            set_option(option, size)
