"""The fast codec for plain JPEGs, the most common files in datasets.

TurboJPEG decodes to an array at 1/2, 1/4 or 1/8 of the size if at least twice the target size remains, and reports
broken files. `fast_resize` takes a sixth of Pillow's time. OpenCV's encoder writes the same bytes as Pillow from the
array; simplejpeg's encoder would use a less exact transform below quality 96.
"""

from __future__ import annotations

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from beam_tfrecords.transforms.images.arrays import fit, pick_nearest, turn
from beam_tfrecords.transforms.images.color import apply_profile, to_channels, to_srgb_transform
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.decode_errors import check_pixels
from beam_tfrecords.transforms.images.encode import COLORSPACES, check_side, encode
from beam_tfrecords.transforms.images.fast_resize import fast_resize_array
from beam_tfrecords.transforms.images.geometry import Geometry, plan_geometry
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec, Metadata, Resample
from beam_tfrecords.transforms.images.jpeg_header import JpegHeader, parse_jpeg_header
from beam_tfrecords.transforms.images.memory import check_memory, plain_jpeg_memory
from beam_tfrecords.transforms.images.quality import Quality, measure_array

# A reduced image keeps at least this multiple of the target size: 47 dB or more on the test photos; 1.5 gives 41 dB.
_SPARE = 2


def convert_plain_jpeg(data: bytes, spec: ImageSpec) -> ConvertedImage | None:
    """Converts a plain JPEG as `convert_image` does.

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
    grey = header.components == 1 or (spec.channels == 1 and profile is None)
    reduction = _reduction(header, geometry, spec.resample)
    needed = len(data) + plain_jpeg_memory(
        header, geometry, spec, reduction=reduction, channels=1 if grey else 3, has_profile=bool(profile)
    )
    check_memory(needed, spec.max_image_memory, height=header.height, width=header.width)
    pixels = _decode(data, header, geometry, spec.resample, reduction=reduction, colors="GRAY" if grey else order)
    if pixels is None:
        return None
    if geometry.is_nearest:
        pixels = pick_nearest(turn(pixels, orientation), geometry)
    if profile:
        pixels = _to_srgb(pixels, profile, order, grey=spec.channels == 1)
    pixels = fit(pixels if geometry.is_nearest else turn(pixels, orientation), geometry)
    quality = measure_array(pixels, order)
    if spec.image_encoding is ImageEncoding.JPEG:
        return _encode_jpeg(pixels, spec, geometry, quality)
    image = Image.fromarray(pixels)
    image = to_channels(image, spec.channels or len(image.getbands()))
    return encode(image, spec.image_encoding, jpeg_quality=spec.jpeg_quality, geometry=geometry, quality=quality)


def _reduction(header: JpegHeader, geometry: Geometry, resample: Resample) -> int:
    """Returns 1, 2, 4 or 8: the factor by which decoding reduces the size."""
    height, width = geometry.resized_unturned
    reduction = 1
    if resample not in (Resample.NEAREST, Resample.BOX):
        while reduction < 8 and min(header.height / height, header.width / width) >= 2 * reduction * _SPARE:
            reduction *= 2
    return reduction


def _decode(
    data: bytes, header: JpegHeader, geometry: Geometry, resample: Resample, *, reduction: int, colors: str
) -> np.ndarray | None:
    """Decodes and resizes, without turning: returns [H, W] (for "GRAY") or [H, W, 3] uint8; None if the file is broken.

    Does not resize with the nearest filter, because the nearest pixel depends on the orientation.
    """
    height, width = geometry.resized_unturned
    reduced_height, reduced_width = -(-header.height // reduction), -(-header.width // reduction)
    try:
        pixels = simplejpeg.decode_jpeg(data, colors, min_height=reduced_height, min_width=reduced_width)
    except ValueError:
        return None
    if colors == "GRAY":
        pixels = pixels[:, :, 0]
    if (header.height, header.width) == (height, width) or geometry.is_nearest:
        return pixels
    scale = header.height / reduction / height, header.width / reduction / width
    return fast_resize_array(pixels, height, width, scale=scale, resample=resample)


def _to_srgb(pixels: np.ndarray, profile: bytes, order: str, *, grey: bool) -> np.ndarray:
    """Applies a color profile. Runs after the resize, when there are fewer pixels.

    Args:
      pixels: [H, W] uint8, or [H, W, 3] in the given order.
      grey: always return [H, W].
    """
    height, width = pixels.shape[:2]
    mode, stored = ("L", "L") if pixels.ndim == 2 else ("RGB", order)
    image = Image.frombytes(mode, (width, height), np.ascontiguousarray(pixels), "raw", stored)
    image = apply_profile(image, profile)
    if grey or mode == "L":
        return np.asarray(image.convert("L"))
    return np.frombuffer(image.tobytes("raw", order), np.uint8).reshape(height, width, 3)


def _encode_jpeg(pixels: np.ndarray, spec: ImageSpec, geometry: Geometry, quality: Quality) -> ConvertedImage:
    """Encodes [H, W] grey or [H, W, 3] BGR uint8 to the bytes that Pillow would write."""
    height, width = pixels.shape[:2]
    check_side(height, width, ImageEncoding.JPEG)
    if pixels.ndim == 2 and spec.channels == 3:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR)
    _, file = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, spec.jpeg_quality])
    channels = 1 if pixels.ndim == 2 else 3
    return ConvertedImage(
        file.tobytes(),
        "jpeg",
        height,
        width,
        channels,
        COLORSPACES[channels],
        geometry=geometry,
        quality=quality,
    )
