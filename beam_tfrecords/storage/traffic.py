"""What this process has asked object stores for: requests by kind, those that failed, and bytes.

Whoever takes the counts reports them, so nothing is counted twice.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

# Kind of count -> number: those of `KINDS`, "retries", "bytes_read" and "bytes_written".
Traffic: TypeAlias = "Mapping[str, int]"

# Requests are priced by these kinds. A request of a kind with its retries counts as often as it was sent.
LIST, READ, WRITE, DELETE = KINDS = ("list", "read", "write", "delete")

_counts: Counter[str] = Counter()
# What the garbage collector closes may make requests too, in the thread that holds it.
_lock = threading.RLock()


def count(kind: str, number: int = 1) -> None:
    """Adds to a count of this process."""
    with _lock:
        _counts[kind] += number


def add_traffic(traffic: Traffic) -> None:
    """Adds the counts of others."""
    with _lock:
        _counts.update(traffic)


def take_traffic() -> dict[str, int]:
    """All counts since they were last taken."""
    with _lock:
        taken = {kind: number for kind, number in _counts.items() if number}
        _counts.clear()
    return taken
