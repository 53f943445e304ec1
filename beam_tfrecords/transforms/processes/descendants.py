"""Finds and kills descendants of processes, where the kernel lists them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path


def find_children(process: int | str = "self") -> frozenset[int]:
    """Returns the numbers of a process's children; empty if the kernel does not list them."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):  # it has just ended
                found.update(map(int, Path(f"/proc/{process}/task", thread, "children").read_text().split()))
    return frozenset(found)


def kill_with_descendants(process: int) -> None:
    """Kills a process, its process group, and its descendants in other groups."""
    found, waiting = [process], [process]
    while waiting:
        children = find_children(waiting.pop())
        found += children
        waiting += children
    kill_group(process)
    _kill(found)


def kill_group(leader: int) -> None:
    """Kills the remaining processes of a group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
