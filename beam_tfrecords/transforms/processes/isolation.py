"""Keeps a decoder that crashes or hangs from ending a build.

Decoders are C code: no `except` undoes what they do to the process. So conversions run in the worker itself, under
a time limit that kills the process. A block whose worker died is tried again with a child process for the
conversions; the sample that kills the child is rejected by name.
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

# Of all threads of this process, by thread; they share its one timer.
_deadlines: dict[int, float] = {}
_deadlines_lock = threading.Lock()


class TimeLimit(contextlib.AbstractContextManager[None]):
    """Kills this process if the block takes longer, whatever it does; may be entered again and again.

    The kernel's timer also reaches a decoder that never returns to the interpreter. A process has one timer, so
    it is set to the first deadline of all threads.
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
    # Zero would switch the timer off. SIGALRM keeps its default action, which ends the process.
    signal.setitimer(signal.ITIMER_REAL, max(left, 0.001) if _deadlines else 0)


@contextlib.contextmanager
def isolated(
    function: Callable[..., Result],
    seconds: float,
    *,
    name: Callable[..., str] = str,
    what: str = "the decoder",
) -> Iterator[Callable[..., Result | SampleError]]:
    """The function in a child process: a call that kills the child, or takes too long, returns a `SampleError`.

    No decoder ends with SIGKILL; if the child does twice, the call raises `BuildError`.

    Args:
      function: as for `Worker.call`.
      seconds: for one call.
      name: of what the function does with its arguments, for that error.
      what: may not end, or may end its process, for people.
    """
    worker = Worker()

    def call(*arguments: Any, is_first: bool = True) -> Result | SampleError:
        try:
            # Time for starting and importing does not count.
            worker.call(_do_nothing, function)
            result: Result = worker.call(function, *arguments, timeout=seconds)
        except SampleError as error:  # returned or raised by the function: a worker raises both
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
    """Called with a function, it leaves what that function needs imported."""
