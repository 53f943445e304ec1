"""What is set once in every process that converts, and nowhere else."""

from __future__ import annotations

import ctypes
import functools
import gc

from beam_tfrecords.storage import io_watchdog

# glibc returns large blocks to the system at every free and asks for them again, zeroed, for the next image. What
# one image and one part need stays with the process; the memory of a huge image is still returned. (malloc.h)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = {_M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 64 << 20}


@functools.cache
def prepare_process() -> None:
    """Prepares this process for converting; the second call does nothing."""
    from beam_tfrecords.transforms.images.process_setup import prepare_images

    prepare_images()
    io_watchdog.end_stalled_reads()
    # What is imported by now stays; scanning it again and again took 5% of the time of a build.
    gc.freeze()
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # None on macOS, which has another allocator
        for option, size in _KEPT_BYTES.items():
            set_option(option, size)
