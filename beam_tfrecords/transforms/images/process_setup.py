"""Process-wide settings of the image libraries."""

from __future__ import annotations

import logging
import warnings

import cv2


def prepare_images() -> None:
    """Prepares a worker process for converting images. Does not change the results."""
    # One process per core already uses every core; OpenCV's own threads would only compete.
    cv2.setNumThreads(1)
    # Pillow warns about odd TIFF tags and invalid APNGs, which either are harmless or fail anyway.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    # These logs do not name the file, but the failure of the sample does.
    logging.getLogger("PIL").setLevel(logging.CRITICAL)
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
