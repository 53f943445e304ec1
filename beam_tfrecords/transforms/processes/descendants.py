"""Checks whether processes run, and finds and kills descendants of processes, where the kernel lists them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path


def is_there(process: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        return True
    return True


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


def kill_holders(pipes: Iterable[int]) -> None:
    """Kills the processes whose standard output or error is one of these pipes.

    Args:
      pipes: file descriptors of the pipes' ends in this process.
    """
    ours = {(status.st_dev, status.st_ino) for status in map(os.fstat, pipes)}
    _kill(process for process in _list_processes() if not ours.isdisjoint(_find_output(process)))


def _list_processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
    except OSError:
        return []


def _find_output(process: int) -> set[tuple[int, int]]:
    """Returns (device, inode) of a process's standard output and error."""
    found = set()
    for number in (1, 2):
        with contextlib.suppress(OSError):  # the process has ended, closed the file, or belongs to another user
            status = os.stat(f"/proc/{process}/fd/{number}")
            found.add((status.st_dev, status.st_ino))
    return found


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
