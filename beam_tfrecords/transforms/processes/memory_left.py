"""Checks that this process may still allocate the memory for an image, for example under `ulimit -v`."""

from __future__ import annotations

import mmap
import resource
import sys

from beam_tfrecords.errors import BuildError

# MAP_NORESERVE, which Python names only since 3.13. Without it, Linux refuses to map more memory than the machine has,
# although most images need little (mmap(2)).
_NORESERVE = 0x4000 if sys.platform == "linux" else 0


def check_memory_left(needed: int) -> None:
    """Checks that memory can be allocated, without using it.

    Args:
      needed: bytes.

    Raises:
      BuildError: this process may not allocate that much memory.
    """
    if not needed:
        return
    try:
        # Larger values mean no limit, but address spaces are limited.
        mmap.mmap(-1, min(needed, 1 << 40), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE).close()
    except OSError as error:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        why = "" if limit == resource.RLIM_INFINITY else f"; `ulimit -v` allows {limit >> 20:,} MiB in all"
        raise BuildError(
            f"a worker process cannot have the {needed >> 20:,} MiB of memory that an image may take: {error.strerror}"
            f"{why}; allow more, or lower `max_image_memory`"
        ) from error
