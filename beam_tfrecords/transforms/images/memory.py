"""Estimates the memory that one image takes from its header, before any of it is allocated.

All constants are bytes per pixel in the worst case of a format or mode, measured as peaks of Pillow 12 and its bundled
decoders. Tests check them. Estimates include the bytes of the file.
"""

from __future__ import annotations

import math

from PIL import Image, ImageFile

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.color import stored_channels, to_srgb_transform
from beam_tfrecords.transforms.images.decode_errors import decode_error
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec, Metadata
from beam_tfrecords.transforms.images.jpeg_header import JpegHeader, parse_jpeg_header
from beam_tfrecords.transforms.images.tiff import TiffImage, bits_of

# Memory of decoders besides the image; _OPENED is held until the image is closed. Pillow decodes _TEXT_CODECS in
# Python.
_DECODER = {"webp": 12.5, "avif": 10, "heic": 16, "jpeg": 8}
_OPENED = {"WEBP": 12, "AVIF": 8}
_IN_PYTHON, _TEXT_CODECS = 9, ("ppm", "ppm_plain", "bmp_rle")
_JPEG_COEFFICIENT, _JPEG2000_SAMPLE = 2, 4.2
# Temporary memory of conversions: wide gray to 8 bits, a color profile, blending with white, a copy.
_WIDE_GREY = {"I": 14, "F": 14, "I;16": 9, "I;16B": 9}
_PROFILE, _BLEND, _COPY = 9, 6, 4
# 16-bit conversion: Pillow's image, OpenCV's, and copies weighted by transparency; then the same for the resized image.
_DEEP, _DEEP_RESIZED = 44, 44
# Copies of an array, and bytes per number of the channel that is resized: float64 passes.
_ARRAY_COPIES, _ARRAY_PASSES = 3, 48
# Numbers of a mask from a table: copies in colors, Pillow's bytes, indices of 64 bits.
_MAPPED = 14
_TIFF_ROWS, _TIFF_TILE_WIDTH, _TIFF_TILE_HEIGHT, _TIFF_SAMPLES = 278, 322, 323, 277


def check_memory(needed: float, spec: ImageSpec, *, height: int, width: int) -> None:
    """Checks an estimate in bytes against `max_image_memory`; height and width are for the message.

    Raises:
      SampleError: reason `too_much_memory`.
    """
    if needed > spec.max_image_memory:
        detail = f"{width} x {height} pixels of this kind take about {needed / 1e6:.0f} MB of memory"
        raise decode_error(
            FailureReason.TOO_MUCH_MEMORY, f"{detail}; the limit is `max_image_memory={spec.max_image_memory}`"
        )


def webp_memory(data: bytes, height: int, width: int) -> float:
    """Returns peak bytes of opening and decoding a WebP file; libwebp already allocates canvases when opening."""
    return len(data) + (_DECODER["webp"] + 4) * height * width


def jpeg_coefficients(header: JpegHeader) -> float:
    """Returns bytes of the coefficients of a JPEG with several scans, which are all read before decoding; else 0."""
    return _JPEG_COEFFICIENT * header.samples if header.has_many_scans else 0


def plain_jpeg_memory(
    header: JpegHeader, geometry: Geometry, spec: ImageSpec, *, reduction: int, channels: int, has_profile: bool
) -> float:
    """Returns peak bytes of the fast codec without the file, for `channels` decoded at 1 / `reduction` of the size."""
    decoded = channels * header.height * header.width / reduction**2
    resized, stored = math.prod(geometry.resized), math.prod(geometry.final)
    needed = decoded
    if (header.height, header.width) != geometry.resized_unturned:  # two copies for the resize, and its two results
        needed += 2 * decoded + 2 * channels * resized
    copies = (
        geometry.orientation != 1 or stored != resized,
        spec.image_encoding is not ImageEncoding.JPEG,
        channels == 1 and spec.channels != 1,
    )
    needed += _COPY * sum(copies) * max(resized, stored) + (_PROFILE * resized if has_profile else 0)
    return max(jpeg_coefficients(header) + decoded, needed + _encoder(spec) * stored)


def decoding_memory(data: bytes, name: str, image: ImageFile.ImageFile) -> float:
    """Returns peak bytes of decoding an opened file."""
    pixels = image.height * image.width
    beside = _DECODER.get(name, 0) * pixels
    if name == "jpeg" and (header := parse_jpeg_header(data)):
        beside = jpeg_coefficients(header)
    elif name == "jpeg2000":  # samples of one tile, which may be the whole image
        sample = _JPEG2000_SAMPLE + (2 if image.mode.startswith("I;16") else 1)
        beside = sample * len(image.getbands()) * pixels + len(data)
    elif isinstance(image, TiffImage):
        beside = _tiff_strip(image)
    elif image.tile and image.tile[0][0] in _TEXT_CODECS:
        beside = _IN_PYTHON * pixels
    return len(data) + beside + pixels_memory(image.mode, pixels)


def converting_memory(image: Image.Image, spec: ImageSpec, geometry: Geometry, *, in_strips: bool) -> float:
    """Returns peak bytes of processing a decoded image: converting, turning, resizing, cropping or padding, encoding.

    Args:
      in_strips: whether the image is converted strip by strip, as in `shrink_large`.
    """
    pixels = image.height * image.width
    resized, stored = math.prod(geometry.resized), math.prod(geometry.final)
    # A resize has two passes; the first changes only the width.
    added = 0 if resized == pixels else _COPY * (geometry.height * geometry.resized_unturned[1] + resized)
    added += (_COPY if stored != resized else 0) * stored + _encoder(spec) * stored
    if in_strips:
        added += pixels
    else:
        added += (_conversion(image, spec) + (_COPY if geometry.orientation != 1 else 0)) * pixels
    return (pixels_memory(image.mode, 1) + _OPENED.get(image.format or "", 0)) * pixels + added


def sixteen_bit_memory(geometry: Geometry) -> float:
    """Returns peak bytes of converting an image in 16 bits."""
    resized, stored = math.prod(geometry.resized), math.prod(geometry.final)
    return _DEEP * geometry.height * geometry.width + _DEEP_RESIZED * max(resized, stored)


def array_memory(pixels: int, channels: int, item_bytes: int) -> float:
    """Returns peak bytes of reading and resizing an array, without the file."""
    return pixels * (_ARRAY_COPIES * item_bytes * channels + _ARRAY_PASSES)


def mask_memory(image: Image.Image, *, is_mapped: bool = False) -> float:
    """Returns peak bytes of reading the numbers of a decoded mask: its channels, their differences, and an array.

    Args:
      is_mapped: whether a table replaces its colors or numbers.
    """
    pixels, channels = image.height * image.width, len(image.getbands())
    beside = channels + 4 if channels > 1 else 3 * pixels_memory(image.mode, 1)
    return pixels_memory(image.mode, pixels) + (beside + (_MAPPED if is_mapped else 0)) * pixels


def pixels_memory(mode: str, pixels: int) -> int:
    """Returns the bytes that pixels of a mode take in Pillow."""
    return pixels * (1 if mode in ("1", "L", "P") else 2 if mode.startswith("I;16") else 4)


def _encoder(spec: ImageSpec) -> int:
    """Returns bytes per pixel that an encoder needs besides the file. WebP needs more for lossless transparency."""
    if spec.image_encoding is ImageEncoding.RAW:
        return 8
    return 0 if spec.image_encoding is not ImageEncoding.WEBP else 8 if spec.channels == 3 else 27


def _conversion(image: Image.Image, spec: ImageSpec) -> int:
    """Returns peak bytes per pixel of the conversion to the channels of the request."""
    channels = stored_channels(image)
    wanted = min(spec.channels or channels, 3 if spec.image_encoding is ImageEncoding.JPEG else 4)
    needed = _WIDE_GREY.get(image.mode, 0)
    if channels == 4 and wanted < 4:
        needed += _BLEND + (0 if image.mode == "RGBA" else _COPY)
    elif image.mode != {1: "L", 3: "RGB", 4: "RGBA"}[wanted]:
        needed += _COPY
    profile = image.info.get("icc_profile")
    bands = "L" if channels == 1 else "CMYK" if image.mode == "CMYK" else "RGB"
    if isinstance(profile, bytes) and spec.color_profile is Metadata.APPLY and to_srgb_transform(profile, bands):
        needed += _PROFILE
    return needed


def _tiff_strip(image: TiffImage) -> float:
    """Returns bytes of a strip or tile of a TIFF, which libtiff decodes at once; 0 for uncompressed data."""
    if not image.tile or image.tile[0][0] != "libtiff":
        return 0
    tags = image.tag_v2
    pixel = max(4, tags.get(_TIFF_SAMPLES, 1) * bits_of(tags) / 8)
    rows = tags.get(_TIFF_TILE_HEIGHT) or min(tags.get(_TIFF_ROWS, image.height), image.height)
    return pixel * rows * tags.get(_TIFF_TILE_WIDTH, image.width)
