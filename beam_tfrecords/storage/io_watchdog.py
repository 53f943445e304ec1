"""Ends a process whose disk does not answer: nothing else interrupts a read of a mount that hangs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

# Of one call that reads a piece of a file; a disk that wakes up takes half a minute.
_MOST_SECONDS = 600.0
_LOOK_SECONDS = 5.0

# Thread -> the file that it reads, and since when.
_reading: dict[int, tuple[str, float]] = {}
# The process that is watched; a fork of it is not.
_watched = [0]


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """A block that reads a piece of a file."""
    thread = threading.get_ident()
    _reading[thread] = path, time.monotonic()
    try:
        yield
    finally:
        _reading.pop(thread, None)


def end_stalled_reads(*, seconds: float = _MOST_SECONDS) -> None:
    """Ends this process with a message and exit code 1 if a read takes too long; the second call does nothing.

    For processes of ours alone: one that trains on a dataset is not ours to end.

    Args:
      seconds: of one call that reads.
    """
    if _watched[0] == os.getpid():
        return
    _watched[0] = os.getpid()
    _reading.clear()

    def watch() -> None:
        pause = min(_LOOK_SECONDS, seconds)
        # Read -> seconds that it was watched: the time for which a process was suspended does not count.
        watched: dict[tuple[str, float], float] = {}
        while True:
            time.sleep(pause)
            watched = {read: watched.get(read, 0) + pause for read in list(_reading.values())}
            for path, _ in (read for read, waited in watched.items() if waited > seconds):
                text = f"beam-tfrecords: {path!a} cannot be read: its disk gives no answer for {seconds:.0f} seconds\n"
                os.write(2, text.encode())
                os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch reads").start()
