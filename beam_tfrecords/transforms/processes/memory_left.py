"""Whether this process may still allocate what an image may take, under `ulimit -v` for example."""

from __future__ import annotations

import mmap
import resource
import sys

from beam_tfrecords.errors import BuildError

# Linux would refuse more than the machine has, although most images take little (mmap(2); Python 3.13 names it).
_NORESERVE = 0x4000 if sys.platform == "linux" else 0


def check_memory_left(needed: int) -> None:
    """Allocates memory, without using it, and frees it.

    Args:
      needed: bytes.

    Raises:
      BuildError: this process may not have that much.
    """
    if not needed:
        return
    try:
        # A larger number means that there is no limit; address spaces end somewhere.
        mmap.mmap(-1, min(needed, 1 << 40), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE).close()
    except OSError as error:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        why = "" if limit == resource.RLIM_INFINITY else f"; `ulimit -v` allows {limit >> 20:,} MiB in all"
        raise BuildError(
            f"a worker process cannot have the {needed >> 20:,} MiB of memory that an image may take: {error.strerror}"
            f"{why}; allow more, or lower `max_image_memory`"
        ) from error
