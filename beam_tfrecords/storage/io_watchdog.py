"""Ends a process whose disk does not answer: nothing else can interrupt a read from a mount that hangs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

# Limit for one read call; a disk that spins up takes half a minute.
_MOST_SECONDS = 600.0
_LOOK_SECONDS = 5.0

# Thread -> the file that it reads, and the start of the read.
_reading: dict[int, tuple[str, float]] = {}
# The watched process; a fork of it is not watched.
_watched = [0]


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Watches a read of a piece of a file."""
    thread = threading.get_ident()
    _reading[thread] = path, time.monotonic()
    try:
        yield
    finally:
        _reading.pop(thread, None)


def end_stalled_reads(*, seconds: float = _MOST_SECONDS) -> None:
    """Ends this process with a message and exit code 1 if a read takes too long; a second call does nothing.

    Only for our own processes, not for a user's training process.

    Args:
      seconds: limit for one read call.
    """
    if _watched[0] == os.getpid():
        return
    _watched[0] = os.getpid()
    _reading.clear()

    def watch() -> None:
        pause = min(_LOOK_SECONDS, seconds)
        # Read -> seconds that it was watched, which excludes time in which the process was suspended.
        watched: dict[tuple[str, float], float] = {}
        while True:
            time.sleep(pause)
            watched = {read: watched.get(read, 0) + pause for read in list(_reading.values())}
            for path, _ in (read for read, waited in watched.items() if waited > seconds):
                text = f"beam-tfrecords: {path!a} cannot be read: its disk gives no answer for {seconds:.0f} seconds\n"
                os.write(2, text.encode())
                os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch reads").start()
