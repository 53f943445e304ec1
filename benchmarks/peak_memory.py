"""Runs a command; measures its time and the largest memory of all its processes together.

Linux only. Memory is the sum of the processes' proportional set sizes (PSS), in which a page that n
processes share counts 1/n for each, so that nothing is counted twice. The kernel walks all their pages
for it (some 0.1 ms per MB, five times a second), which slows large commands down noticeably: for a fair
time, run again without.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

_SAMPLE_SECONDS = 0.2
# Daemons of a finished command (Ray's, for one) get this long to end by themselves.
_PATIENCE_SECONDS = 15.0
_PR_SET_CHILD_SUBREAPER = 36
_PROC = pathlib.Path("/proc")


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What one run cost.

    Attributes:
      seconds: wall time from the start of the command to its exit.
      peak_bytes: largest sum over all processes, of the samples taken; 0 if none were.
      largest_bytes: the same of the largest process alone.
      processor_seconds: of all processes that have ended.
      exit_code: the command's, negative for a signal.
    """

    seconds: float
    peak_bytes: int
    largest_bytes: int
    processor_seconds: float
    exit_code: int


def measure(
    command: Sequence[str],
    *,
    sample_memory: bool = True,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Measurement:
    """Runs a command to its end, and ends what it leaves running.

    Args:
      command: program and arguments.
      sample_memory: whether to look at the memory, at the price of a slower run.
      log: gets what the command prints; None lets it through.
      environment: variables set in addition to those of this process.
    """
    # A process whose parent ends becomes a child of this one, so that none gets out of sight.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = _descendants(os.getpid())
    peak_bytes = largest_bytes = 0
    finished = threading.Event()

    def sample() -> None:
        nonlocal peak_bytes, largest_bytes
        while sample_memory and not finished.wait(_SAMPLE_SECONDS):
            sizes = [_memory_of(pid) for pid in _descendants(os.getpid()) - before]
            peak_bytes, largest_bytes = max(peak_bytes, sum(sizes)), max(largest_bytes, *sizes, 0)

    start, before_usage = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        command, stdout=log, stderr=log, env={**os.environ, **environment} if environment else None
    )
    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        exit_code = process.wait()
        seconds = time.monotonic() - start
    finally:
        finished.set()
        sampler.join()
        _end_leftovers(before)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before_usage.ru_utime - before_usage.ru_stime
    return Measurement(seconds, peak_bytes, largest_bytes, used, exit_code)


def _descendants(root: int) -> set[int]:
    """Returns the process ids of all children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir(_PROC):
        if entry.isdigit():
            # A process may end while it is looked at.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                status = (_PROC / entry / "stat").read_text()
                # The command in brackets, before the state and the parent, may hold spaces and brackets.
                parent = int(status.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry))
    found: set[int] = set()
    pending = [root]
    while pending:
        new = children.get(pending.pop(), [])
        found.update(new)
        pending.extend(new)
    return found


def _memory_of(pid: int) -> int:
    """Returns the bytes of memory of a process; 0 if it has ended."""
    try:
        rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
        return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    except (FileNotFoundError, ProcessLookupError, StopIteration):
        return 0


def _end_leftovers(before: set[int]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while left := _descendants(os.getpid()) - before:
        for pid in left:
            with contextlib.suppress(ChildProcessError, ProcessLookupError):
                os.waitpid(pid, os.WNOHANG)
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
