"""Prints the folder for temporary files of tests, which are many and small: in memory, or the usual one."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
LEAST_BYTES = 6 << 30


def find_temp_root() -> str:
    """Returns a folder with room for the tests, in which programs may run."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return tempfile.gettempdir()
    may_run = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return str(MEMORY) if may_run and shutil.disk_usage(MEMORY).free >= LEAST_BYTES else tempfile.gettempdir()


if __name__ == "__main__":
    print(find_temp_root())
