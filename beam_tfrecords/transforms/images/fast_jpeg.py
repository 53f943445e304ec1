"""The fast codec for plain JPEGs, the most common files in datasets.

TurboJPEG decodes to an array at 1/2, 1/4 or 1/8 of the size if at least twice the target size remains, and reports
broken files. The Rust resizer takes a sixth of Pillow's time. OpenCV's encoder writes the same bytes as Pillow from the
array; simplejpeg's encoder would use a less exact transform below quality 96.
"""

from __future__ import annotations

import numpy as np
import simplejpeg
from PIL import Image

from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.color import apply_profile, array_channels, to_srgb_transform
from beam_tfrecords.transforms.images.converted_image import PlacedPixels
from beam_tfrecords.transforms.images.decode_errors import check_pixels
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec, Metadata, Resample
from beam_tfrecords.transforms.images.jpeg_header import JpegHeader, parse_jpeg_header
from beam_tfrecords.transforms.images.memory import check_memory, plain_jpeg_memory
from beam_tfrecords.transforms.images.plan_geometry import plan_geometry
from beam_tfrecords.transforms.images.resize import FILTERED, fit, resize_array, turn

# A reduced image keeps at least this multiple of the target size: 47 dB or more on the test photos; 1.5 gives 41 dB.
_SPARE = 2


def place_plain_jpeg(data: bytes, spec: ImageSpec) -> PlacedPixels | None:
    """Decodes a plain JPEG as `place_pixels` does.

    Returns:
      None if the file is not a plain JPEG, truncated or broken; Pillow's decoder then finds the reason.

    Raises:
      SampleError: reason `too_many_pixels` or `too_much_memory`.
    """
    header = parse_jpeg_header(data)
    if header is None or not header.is_plain or not header.has_end(data):
        return None
    check_pixels(header.height, header.width, spec.max_pixels)
    orientation = header.orientation() if spec.orientation is Metadata.APPLY else 1
    geometry = plan_geometry(header.height, header.width, orientation=orientation, spec=spec)
    profile = header.icc_profile if spec.color_profile is Metadata.APPLY else None
    if profile and not to_srgb_transform(profile, "L" if header.components == 1 else "RGB"):
        profile = None
    # OpenCV's encoder takes BGR.
    order = "BGR" if spec.image_encoding is ImageEncoding.JPEG else "RGB"
    gray = header.components == 1 or (spec.channels == 1 and profile is None)
    reduction = _reduction(header, geometry, spec.resample)
    needed = plain_jpeg_memory(
        header, geometry, spec, reduction=reduction, channels=1 if gray else 3, has_profile=bool(profile)
    )
    check_memory(len(data) + needed, spec, height=header.height, width=header.width)
    pixels = _decode(data, header, geometry, spec.resample, reduction=reduction, colors="GRAY" if gray else order)
    if pixels is None:
        return None
    if geometry.is_nearest:  # the nearest pixel depends on the orientation
        pixels, orientation = turn(pixels, orientation), 1
        pixels = resize_array(pixels, geometry.resized_height, geometry.resized_width, spec.resample)
    if profile:
        pixels = _to_srgb(pixels, profile, order, gray=spec.channels == 1)
    pixels = fit(turn(pixels, orientation), geometry)
    return PlacedPixels(array_channels(pixels, spec.channels), geometry, is_bgr=order == "BGR" and pixels.ndim == 3)


def _reduction(header: JpegHeader, geometry: Geometry, resample: Resample) -> int:
    """Returns 1, 2, 4 or 8: the factor by which decoding reduces the size."""
    height, width = geometry.resized_unturned
    reduction = 1
    if resample in FILTERED:
        while reduction < 8 and min(header.height / height, header.width / width) >= 2 * reduction * _SPARE:
            reduction *= 2
    return reduction


def _decode(
    data: bytes, header: JpegHeader, geometry: Geometry, resample: Resample, *, reduction: int, colors: str
) -> np.ndarray | None:
    """Decodes and resizes, without turning: returns [H, W] (for "GRAY") or [H, W, 3] uint8; None if the file is broken.

    Does not resize with the nearest filter.
    """
    height, width = geometry.resized_unturned
    reduced_height, reduced_width = -(-header.height // reduction), -(-header.width // reduction)
    try:
        pixels = simplejpeg.decode_jpeg(data, colors, min_height=reduced_height, min_width=reduced_width)
    except ValueError:
        return None
    if colors == "GRAY":
        pixels = pixels[:, :, 0]
    if geometry.is_nearest:
        return pixels
    scale = header.height / reduction / height, header.width / reduction / width
    return resize_array(pixels, height, width, resample, scale=scale)


def _to_srgb(pixels: np.ndarray, profile: bytes, order: str, *, gray: bool) -> np.ndarray:
    """Applies a color profile. Runs after the resize, when there are fewer pixels.

    Args:
      pixels: [H, W] uint8, or [H, W, 3] in the given order.
      gray: always return [H, W].
    """
    height, width = pixels.shape[:2]
    mode, stored = ("L", "L") if pixels.ndim == 2 else ("RGB", order)
    image = Image.frombytes(mode, (width, height), np.ascontiguousarray(pixels), "raw", stored)
    image = apply_profile(image, profile)
    if gray or mode == "L":
        return np.asarray(image.convert("L"))
    return np.frombuffer(image.tobytes("raw", order), np.uint8).reshape(height, width, 3)
