"""Keeps a decoder that crashes or hangs from ending a build.

Decoders are C code, and no `except` can undo their damage to a process. So the first attempt converts in the worker
itself, under a time limit that kills the process. If the worker dies, the next attempt at the block converts in a child
process, and the build rejects the sample that kills the child.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.transforms.processes.worker import OUT_OF_MEMORY, Worker, WorkerDiedError, WorkerTimeoutError

Result = TypeVar("Result")

# Thread -> its deadline. All threads share the single timer of the process.
_deadlines: dict[int, float] = {}
_deadlines_lock = threading.Lock()


class TimeLimit(contextlib.AbstractContextManager[None]):
    """Kills this process if the block takes longer than the limit. An instance may be entered repeatedly.

    The kernel's timer also stops a decoder that never returns to the interpreter. A process has only one timer, so it
    is set to the earliest deadline of all threads.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        with _deadlines_lock:
            _deadlines[threading.get_ident()] = time.monotonic() + self._seconds
            _set_timer()

    def __exit__(self, *_: object) -> None:
        with _deadlines_lock:
            del _deadlines[threading.get_ident()]
            _set_timer()


def _set_timer() -> None:
    left = min(_deadlines.values()) - time.monotonic() if _deadlines else 0
    # A value of 0 would disable the timer. SIGALRM keeps its default action, which ends the process.
    signal.setitimer(signal.ITIMER_REAL, max(left, 0.001) if _deadlines else 0)


@contextlib.contextmanager
def isolated(
    function: Callable[..., Result],
    seconds: float,
    *,
    name: Callable[..., str] = str,
    what: str = "the decoder",
) -> Iterator[Callable[..., Result | SampleError]]:
    """Yields the function for calls in a child process.

    A call that kills the child or exceeds the time limit returns a `SampleError`. Crashing decoders do not end with
    SIGKILL, so the call raises `BuildError` if the child ends with SIGKILL twice.

    Args:
      function: as for `Worker.call`.
      seconds: time limit of one call.
      name: returns the name of the sample from the arguments of a call, for the message of that error.
      what: name, for messages, of the code that may hang or crash.
    """
    worker = Worker()

    def call(*arguments: Any, is_first: bool = True) -> Result | SampleError:
        try:
            # Starts and imports first, so that this time does not count.
            worker.call(_do_nothing, function)
            result: Result = worker.call(function, *arguments, timeout=seconds)
        except SampleError as error:  # the function has returned or raised it; a worker raises both
            return error
        except WorkerTimeoutError:
            detail = f"{what} did not end within {seconds:g} seconds"
            return SampleError(Stage.DECODE, FailureReason.DECODE_TIMEOUT, detail)
        except WorkerDiedError as error:
            if error.may_be_killed and is_first:
                return call(*arguments, is_first=False)
            if error.is_killed:
                raise BuildError(f"{what} was killed twice at {name(*arguments)}; {OUT_OF_MEMORY}") from error
            return SampleError(Stage.DECODE, FailureReason.DECODER_CRASH, f"{what} ended its process: {error}")
        return result

    try:
        yield call
    finally:
        worker.close()


def _do_nothing(_: Any) -> None:
    """Does nothing. Unpickling the argument, a function, imports the modules that it needs."""
