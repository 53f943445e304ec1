"""Processes of this machine that Beam starts for a job, such as a job server in Java: they end with their launcher."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Collection, Iterator


@contextlib.contextmanager
def ended_with_us(processes: Collection[int]) -> Iterator[None]:
    """Has processes of this machine end when this process does within the block, however it ends."""
    if not processes:
        yield
        return
    # What it reads from is closed by the end of this process.
    command = ["sh", "-c", 'read -r _; kill -9 "$@"', "sh", *map(str, processes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as watching:
        try:
            yield
        finally:
            watching.kill()
