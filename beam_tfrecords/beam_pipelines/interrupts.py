"""Handles Ctrl-C and SIGTERM even if other code swallows or replaces their exceptions."""

from __future__ import annotations

import contextlib
import signal
import threading
import types
from collections.abc import Iterator


class Terminated(KeyboardInterrupt):
    """SIGTERM, with which systemd, Airflow and Kubernetes end a process; handled like Ctrl-C."""


@contextlib.contextmanager
def catch_termination() -> Iterator[None]:
    """Raises `Terminated` when SIGTERM arrives in the block, once, unless another handler is installed.

    Ignores further SIGTERMs, so that the cleanup can finish.
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
    """Raises KeyboardInterrupt or `Terminated` in place of any error that follows the signal in the block.

    Beam turns both into RuntimeErrors, and extension modules that are being imported turn them into ImportErrors.
    """
    arrived: list[type[KeyboardInterrupt]] = []
    # A background job of a script ignores SIGINT, and must continue to do so.
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
    except Exception as error:  # any error is raised again
        if arrived:
            raise arrived[0] from error
        raise
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _may_handle() -> bool:
    """Whether this is the main thread; only it may set handlers."""
    return threading.current_thread() is threading.main_thread()
