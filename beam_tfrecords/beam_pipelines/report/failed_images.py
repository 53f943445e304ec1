"""Thumbnails of rejected images whose files can still be read and decoded."""

from __future__ import annotations

import base64
import functools
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.dataset.published_paths import PublishedPaths
from beam_tfrecords.errors import BuildError, FailureReason, SampleError
from beam_tfrecords.transforms.blocks.fetching import read_image
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageSpec, ResizeMode
from beam_tfrecords.transforms.processes.isolation import isolated
from beam_tfrecords.transforms.refs.sample_refs import find_locator

# Reasons with images worth showing. The report does not read files outside the root, nor files that crashed or delayed
# a decoder.
_SEEN = frozenset(
    {
        FailureReason.TOO_LARGE_FILE,
        FailureReason.TRUNCATED,
        FailureReason.TOO_MANY_PIXELS,
        FailureReason.TOO_MUCH_MEMORY,
        FailureReason.LABEL_MISSING,
        FailureReason.UNKNOWN_CLASS,
        FailureReason.UNKNOWN_SPLIT,
        FailureReason.VALUE_MISSING,
        FailureReason.WRONG_TYPE,
        FailureReason.INVALID_BOX,
        FailureReason.INVALID_MASK,
        FailureReason.MASK_MISSING,
        FailureReason.DUPLICATE_KEY,
        FailureReason.CONFLICTING_ROWS,
    }
)
# Bytes read per file; a larger file is shown as if it were truncated.
_MOST_BYTES = 32 << 20
# Time limit in seconds for one image, and for all of them.
_SECONDS = 5.0
# Only memory is limited: a large JPEG is decoded at a fraction of its size.
_THUMBNAIL = ImageSpec(
    image_size=(128, 128),
    resize_mode=ResizeMode.LONGER,
    upscale=False,
    jpeg_quality=70,
    max_pixels=10**9,
    max_image_memory=150_000_000,
    allow_truncated=True,
)


class Thumbnail(NamedTuple):
    """A data URI, and its size in pixels."""

    image: str
    height: int
    width: int


def read_failed_images(
    failures: Iterable[Mapping[str, Any]], paths: PublishedPaths
) -> dict[tuple[str, str], Thumbnail]:
    """Reads the images of failures in another process, so that none of them can block or exhaust this one.

    Args:
      failures: lines of the list of failures, the most important first.
      paths: finds the files of published paths.

    Returns:
      (key, uri) -> thumbnail, for images that can be shown.
    """
    seen = [one for one in failures if one["reason"] in _SEEN and one["uri"] and not storage.is_web(one["uri"])]
    thumbnails: dict[tuple[str, str], Thumbnail] = {}
    if not seen:
        return thumbnails
    end = time.monotonic() + _SECONDS
    with isolated(functools.partial(_read_failed_image, paths=paths), _SECONDS) as read:
        for failure in seen:
            if time.monotonic() > end:
                break
            try:
                found = read(failure)
            except (BuildError, RuntimeError):  # of the store or of our code: the report omits the picture
                continue
            if isinstance(found, Thumbnail):
                thumbnails[failure["key"], failure["uri"]] = found
    return thumbnails


def _read_failed_image(failure: Mapping[str, Any], *, paths: PublishedPaths) -> Thumbnail | SampleError | None:
    path = paths.find(failure.get("locator", failure)["uri"])
    if path is None:
        return None
    if "locator" in failure:
        locator = find_locator({**failure["locator"], "uri": path}, name=failure["uri"])
        data = read_image(locator, size=getattr(locator, "length", 0), max_file_size=_MOST_BYTES)
    else:
        data = storage.read_range(path, 0, _MOST_BYTES)
    if isinstance(data, SampleError):
        return data
    image = convert_image(data, _THUMBNAIL)
    return Thumbnail(f"data:image/jpeg;base64,{base64.b64encode(image.data).decode()}", image.height, image.width)
