"""What keeps a decoder that crashes or hangs from taking a worker with it.

Decoders are C code; what they do to the process, no `except` undoes. So conversions run in the worker
itself, under a time limit that ends the whole process, and a block that did not survive this is tried
again with a process of its own for the conversions, which may die and names the image it died of.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from transforms.child import Child, ChildDiedError, ChildTimeoutError, do_nothing
from transforms.errors import FailureReason, SampleError, Stage
from transforms.values import ConvertedSample, SampleRef

Convert: TypeAlias = "Callable[[SampleRef, bytes | None], ConvertedSample]"


class TimeLimit:
    """Ends this process if a conversion takes too long, whatever it is doing.

    The kernel's timer needs no help from a decoder that never gives the interpreter back. It is one for
    the process, so it is set to the first deadline of all threads.

    Args:
      seconds: for one conversion.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[int, float] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Limits what runs in the block."""
        thread = threading.get_ident()
        with self._lock:
            self._deadlines[thread] = time.monotonic() + self._seconds
            self._set_timer()
        try:
            yield
        finally:
            with self._lock:
                del self._deadlines[thread]
                self._set_timer()

    def _set_timer(self) -> None:
        left = min(self._deadlines.values()) - time.monotonic() if self._deadlines else 0
        # Zero would switch the timer off. SIGALRM is left as it is: it ends the process.
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.001) if self._deadlines else 0)


class IsolatedConverter:
    """Converts samples in a child process; one that dies or hangs costs one sample and no more.

    Args:
      convert: as `ConvertBlocks` takes it.
      seconds: for one conversion.
    """

    def __init__(self, convert: Convert, seconds: float) -> None:
        self._child = Child()
        self._convert = convert
        self._seconds = seconds
        # The time for starting and importing is no conversion's.
        self._child.call(do_nothing, convert)

    def __call__(self, ref: SampleRef, data: bytes | None) -> ConvertedSample:
        """Converts one sample.

        Raises:
          SampleError: as `convert` does, and if the child died or took too long.
          RuntimeError: if `convert` raised anything else.
        """
        try:
            converted: ConvertedSample = self._child.call(self._convert, ref, data, timeout=self._seconds)
        except ChildTimeoutError as error:
            self._child.call(do_nothing, self._convert)
            detail = f"the decoder did not end within {self._seconds:g} seconds"
            raise SampleError(Stage.DECODE, FailureReason.DECODE_TIMEOUT, detail) from error
        except ChildDiedError as error:
            self._child.call(do_nothing, self._convert)
            detail = f"the decoder ended its process: {error}"
            raise SampleError(Stage.DECODE, FailureReason.DECODER_CRASH, detail) from error
        return converted

    def close(self) -> None:
        """Ends the child."""
        self._child.close()
