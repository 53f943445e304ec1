"""Request metrics of this process: requests to object stores by kind, retries and bytes.

The caller that takes the counts reports them, so nothing is counted twice.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

# Kind of count -> number: those of `KINDS`, "retries", "bytes_read" and "bytes_written".
RequestMetrics: TypeAlias = "Mapping[str, int]"

# Stores price requests by these kinds. Each retry counts as a request.
LIST, READ, WRITE, DELETE = KINDS = ("list", "read", "write", "delete")

_counts: Counter[str] = Counter()
# Reentrant: an object that the garbage collector closes may send requests in the thread that holds the lock.
_lock = threading.RLock()


def count(kind: str, number: int = 1) -> None:
    """Adds to a count of this process."""
    with _lock:
        _counts[kind] += number


def add_request_metrics(request_metrics: RequestMetrics) -> None:
    """Adds the counts of other processes."""
    with _lock:
        _counts.update(request_metrics)


def take_request_metrics() -> dict[str, int]:
    """Returns all counts since the last call, and resets them."""
    with _lock:
        taken = {kind: number for kind, number in _counts.items() if number}
        _counts.clear()
    return taken
