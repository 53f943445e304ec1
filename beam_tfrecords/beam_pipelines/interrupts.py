"""Ctrl-C and SIGTERM, whatever becomes of the exceptions that they raise."""

from __future__ import annotations

import contextlib
import signal
import threading
import types
from collections.abc import Iterator


class Terminated(KeyboardInterrupt):
    """SIGTERM, by which systemd, Airflow and Kubernetes end a process; handled as Ctrl-C is."""


@contextlib.contextmanager
def catch_termination() -> Iterator[None]:
    """Raises `Terminated` in the block when SIGTERM arrives, unless somebody else handles it; once.

    Another one must not end the cleaning up that follows, so it is ignored from then on.
    """
    arrived = threading.Event()

    def terminate(number: int, frame: types.FrameType | None) -> None:
        if not arrived.is_set():
            arrived.set()
            raise Terminated

    if not _may_handle() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if not arrived.is_set():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def keep_interrupts() -> Iterator[None]:
    """Raises KeyboardInterrupt, or `Terminated`, for any error that follows the signal in the block.

    Beam makes RuntimeErrors of them, and extension modules that are being imported ImportErrors.
    """
    arrived: list[type[KeyboardInterrupt]] = []
    # Where SIGINT is ignored, as in a script's background job, it stays so.
    earlier = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if _may_handle() and callable(handler := signal.getsignal(number))
    }

    def interrupt(number: int, frame: types.FrameType | None) -> None:
        arrived.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        earlier[signal.Signals(number)](number, frame)

    for number in earlier:
        signal.signal(number, interrupt)
    try:
        yield
    except Exception as error:  # raised again, whatever it is
        if arrived:
            raise arrived[0] from error
        raise
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _may_handle() -> bool:
    """Only the main thread may set handlers."""
    return threading.current_thread() is threading.main_thread()
