"""Images that a function of the user has made, as files."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.keep import spec_of_changed
from beam_tfrecords.transforms.images.raw_pixels import as_file


class PixelFile(bytes):
    """The plainest file of an image or a mask.

    Attributes:
      format: lower-case name of the format of the file that it takes the place of.
    """

    format: str = "png"

    @functools.cached_property
    def content_hash(self) -> str:
        """Its hash, which is asked for more than once."""
        return content_hash(self)


def hash_file(data: bytes) -> str:
    """The `content_hash` of a file."""
    return data.content_hash if isinstance(data, PixelFile) else content_hash(data)


def pixel_file(pixels: np.ndarray, before: bytes = b"") -> PixelFile:
    """The file of [H, W] or [H, W, C] uint8 or uint16 pixels.

    Args:
      before: the file that it takes the place of.
    """
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    file = PixelFile(as_file(pixels.tobytes(), shape=pixels.shape, axes="HWC"[: pixels.ndim], dtype=pixels.dtype.str))
    with contextlib.suppress(SampleError):  # what cannot be decoded may have any format
        file.format = sniff(before)
    return file


def has_pixels(images: Mapping[str, bytes]) -> bool:
    """Whether a function of the user has made one of the images, or the mask."""
    return any(isinstance(data, PixelFile) for data in images.values())


def spec_for(data: bytes, spec: ImageSpec) -> ImageSpec:
    """How a file is converted: other pixels than those of a source are not kept, but encoded as its file was."""
    if isinstance(data, PixelFile) and spec.image_encoding is ImageEncoding.KEEP:
        return spec_of_changed(spec, data.format)
    return spec
