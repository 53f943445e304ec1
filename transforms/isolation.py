"""What keeps a decoder that crashes or hangs from taking a worker with it.

Decoders are C code; what they do to the process, no `except` undoes. So conversions run in the worker
itself, under a time limit that ends the whole process, and a block that did not survive this is tried
again with a process of its own for the conversions, which may die and names the image it died of.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import TypeAlias

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
      convert: as `ConvertBlocks` takes it; sent to the child once.
      seconds: for one conversion.
    """

    def __init__(self, convert: Convert, seconds: float) -> None:
        self._convert = convert
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def __call__(self, ref: SampleRef, data: bytes | None) -> ConvertedSample:
        """Converts one sample.

        Raises:
          SampleError: as `convert` does, and if the child died or took too long.
          RuntimeError: if `convert` raised anything else.
        """
        connection = self._connection or self._start()
        try:
            connection.send((ref, data))
            if not connection.poll(self._seconds):
                self.close()
                detail = f"the decoder did not end within {self._seconds:g} seconds"
                raise SampleError(Stage.DECODE, FailureReason.DECODE_TIMEOUT, detail)
            outcome = connection.recv()
        except (EOFError, ConnectionError) as error:
            detail = f"the decoder ended its process: {self._describe_death()}"
            raise SampleError(Stage.DECODE, FailureReason.DECODER_CRASH, detail) from error
        if isinstance(outcome, SampleError):
            raise outcome
        if isinstance(outcome, str):
            raise RuntimeError(outcome)
        converted: ConvertedSample = outcome
        return converted

    def close(self) -> None:
        """Ends the child."""
        if self._connection is not None:
            self._connection.close()
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._child = self._connection = None

    def _start(self) -> Connection:
        ours, theirs = multiprocessing.Pipe()
        # Not multiprocessing's own start methods: fork is not safe beside Beam's threads, and spawn would
        # import all of Beam again through the worker's main module.
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; from transforms.isolation import serve; serve({theirs.fileno()})"
        )
        self._child = subprocess.Popen([sys.executable, "-c", program], pass_fds=[theirs.fileno()])
        theirs.close()
        ours.send(self._convert)
        # Its imports are not a conversion's time.
        ours.recv()
        self._connection = ours
        return ours

    def _describe_death(self) -> str:
        child, self._child = self._child, None
        self.close()
        code = child.wait() if child is not None else 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def serve(descriptor: int) -> None:
    """The child: converts what it is sent until the connection is closed."""
    connection = Connection(descriptor)
    convert: Convert = connection.recv()
    connection.send(None)
    while True:
        try:
            ref, data = connection.recv()
        except EOFError:
            return
        try:
            connection.send(convert(ref, data))
        except SampleError as error:
            connection.send(error)
        except Exception:  # a bug: the parent raises it
            connection.send(traceback.format_exc())
