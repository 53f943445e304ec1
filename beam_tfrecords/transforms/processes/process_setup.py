"""Sets up every process that converts images, once per process."""

from __future__ import annotations

import ctypes
import functools
import gc
import logging
import warnings

# By default, glibc returns large blocks to the system at every free, and gets zeroed blocks for the next image. With
# these limits (malloc.h), a process keeps memory for one image and one part, but still returns that of a huge image.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = {_M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 64 << 20}


@functools.cache
def prepare_process() -> None:
    """Prepares this process for converting images, without an effect on results. Further calls do nothing."""
    import cv2

    # One process per core already uses every core; OpenCV's own threads would only compete.
    cv2.setNumThreads(1)
    # Pillow warns about odd TIFF tags and invalid APNGs, which either are harmless or fail anyway.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    # These logs do not name the file, but the failure of the sample does.
    logging.getLogger("PIL").setLevel(logging.CRITICAL)
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    # Excludes imported modules from garbage collection; scanning them repeatedly took 5% of the time of a build.
    gc.freeze()
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # macOS has another allocator
        for option, size in _KEPT_BYTES.items():
            set_option(option, size)
