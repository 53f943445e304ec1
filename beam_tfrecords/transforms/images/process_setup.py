"""Settings of the image libraries that hold for a whole process."""

from __future__ import annotations

import logging
import warnings

import cv2


def prepare_images() -> None:
    """Prepares a worker process for converting images; the results do not depend on it."""
    # One process per core already uses every core; OpenCV's own threads would only compete.
    cv2.setNumThreads(1)
    # Pillow warns about odd TIFF tags and invalid APNGs, which either do not matter or fail anyway.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    # Their logs name no file; the failure of the sample does.
    logging.getLogger("PIL").setLevel(logging.CRITICAL)
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
