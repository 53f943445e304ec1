"""Ctrl-C, whatever becomes of the KeyboardInterrupt that it raises."""

from __future__ import annotations

import contextlib
import signal
import threading
import types
from collections.abc import Iterator


@contextlib.contextmanager
def keep_interrupts() -> Iterator[None]:
    """Raises KeyboardInterrupt for any error that follows Ctrl-C in the block.

    Beam makes RuntimeErrors of it, and extension modules that are being imported ImportErrors.
    """
    interrupted = threading.Event()
    earlier = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: types.FrameType | None) -> None:
        interrupted.set()
        if callable(earlier):
            earlier(number, frame)

    # Where SIGINT is ignored, as in a script's background job, it stays so; only the main thread may set handlers.
    handles = callable(earlier) and threading.current_thread() is threading.main_thread()
    if handles:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:  # raised again, whatever it is
        if interrupted.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        if handles:
            signal.signal(signal.SIGINT, earlier)
