"""The memory that one image takes, estimated from its header before it is allocated.

All figures are bytes per pixel, measured as peaks of Pillow 12 and the decoders that come with it; estimates include
the bytes of the file. The tests hold them.
"""

from __future__ import annotations

import struct

from PIL import Image, ImageFile, TiffImagePlugin

from beam_tfrecords.errors import FailureReason
from transforms.images.color import stored_channels, to_srgb_transform
from transforms.images.decode_errors import decode_error
from transforms.images.formats import walk_boxes
from transforms.images.geometry import Geometry
from transforms.images.image_spec import ImageEncoding, ImageSpec, Metadata
from transforms.images.jpeg_header import JpegHeader, parse_jpeg_header

# An image in Pillow, by mode; of other modes 4, also of those with two or three channels.
_HELD = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}
# What decoders hold besides that image.
_WEBP, _AVIF, _TEXT = 12.5, 10, 9
# What Pillow's plugins hold until the image is closed.
_LEFT = {"WEBP": 12, "AVIF": 8}
_TEXT_CODECS = ("ppm", "ppm_plain", "bmp_rle")  # written in Python
_JPEG_COEFFICIENT = _JPEG2000_SAMPLE = 2
# What a conversion adds while it lasts: wide grey to 8 bits, with a transparent value, a color profile, and
# transparency blended with white.
_WIDE_GREY, _KEY = {"I": 14, "F": 14, "I;16": 9}, 5
_PROFILE = {"L": 6, "LA": 10, "RGB": 4, "RGBA": 9, "CMYK": 8}
_BLEND = 5
_TIFF_ROWS, _TIFF_TILE_WIDTH, _TIFF_TILE_HEIGHT, _TIFF_BITS, _TIFF_SAMPLES = 278, 322, 323, 258, 277


def check_memory(needed: float, limit: int, *, height: int, width: int) -> None:
    """Checks an estimate for an image of a size against the limit, in bytes.

    Raises:
      SampleError: reason `too_much_memory`.
    """
    if needed > limit:
        detail = f"{width} x {height} pixels of this kind take about {needed / 1e6:.0f} MB of memory"
        raise decode_error(FailureReason.TOO_MUCH_MEMORY, f"{detail}; the limit is `max_image_memory={limit}`")


def webp_memory(data: bytes, height: int, width: int) -> float:
    """Bytes at the peak of opening and decoding a WebP file; libwebp allocates its canvases when it is opened."""
    return len(data) + (_WEBP + 4) * height * width


def jpeg_coefficients(header: JpegHeader) -> float:
    """Bytes of the coefficients of a JPEG that is decoded when all of its scans have been read."""
    return _JPEG_COEFFICIENT * header.samples if header.has_many_scans else 0


def plain_jpeg_memory(
    header: JpegHeader, geometry: Geometry, spec: ImageSpec, *, reduction: int, channels: int, has_profile: bool
) -> float:
    """Bytes at the peak of the fast codec, besides the file: arrays of `channels`, decoded at 1 / `reduction`."""
    decoded = channels * header.height * header.width / reduction**2
    resized, stored = geometry.resized_height * geometry.resized_width, geometry.final_height * geometry.final_width
    is_resized = (header.height, header.width) != geometry.resized_unturned
    needed = decoded
    if is_resized:  # filtered, then resized
        needed += decoded + channels * resized
    if has_profile:
        needed += 8 * resized
    if geometry.orientation != 1 or stored != resized:
        needed += channels * max(resized, stored)
    if spec.image_encoding is not ImageEncoding.JPEG:
        needed += 4 * stored
    if channels == 1 and spec.channels != 1:
        needed += 3 * stored
    return max(jpeg_coefficients(header) + decoded, needed + _encoder(spec) * stored)


def decoding_memory(data: bytes, name: str, image: ImageFile.ImageFile) -> float:
    """Bytes at the peak of decoding an opened file."""
    pixels = image.height * image.width
    if name == "jpeg":
        header = parse_jpeg_header(data)
        worst = _JPEG_COEFFICIENT * len(image.getbands()) * pixels
        beside = worst if header is None else jpeg_coefficients(header)
    elif name == "jpeg2000":
        beside = _jpeg2000_tile(data, image)
    elif name == "avif":
        beside = _AVIF * pixels
    elif isinstance(image, TiffImagePlugin.TiffImageFile):
        beside = _tiff_strip(image)
    else:
        beside = _TEXT * pixels if image.tile and image.tile[0][0] in _TEXT_CODECS else 0
    return len(data) + beside + _HELD.get(image.mode, 4) * pixels


def converting_memory(image: Image.Image, spec: ImageSpec, geometry: Geometry, *, in_strips: bool) -> float:
    """Bytes at the peak of what is done with a decoded image: convert, turn, resize, crop or pad, encode.

    Args:
      image: decoded.
      spec: the request.
      geometry: of this image.
      in_strips: whether strips of it are converted one by one, as in `shrink_large`.
    """
    pixels, left = image.height * image.width, _LEFT.get(image.format or "", 0) * image.height * image.width
    source = _HELD.get(image.mode, 4) * pixels + left
    resized, stored = geometry.resized_height * geometry.resized_width, geometry.final_height * geometry.final_width
    # A resize has two passes; the first changes the width only.
    first = 0 if resized == pixels else geometry.height * geometry.resized_unturned[1]
    if in_strips:
        steps = [source + pixels + 4 * resized]
    else:
        conversion, converted = _conversion_peak(image, spec)
        steps = [left + conversion * pixels, source + converted * pixels + 4 * (first + resized if first else 0)]
        if geometry.orientation != 1:
            steps.append(source + 2 * converted * pixels)
    if stored != resized:
        steps.append(source + 4 * (resized + stored))
    return max(*steps, source + (4 + _encoder(spec) if _encoder(spec) or stored != pixels else 0) * stored)


def _encoder(spec: ImageSpec) -> int:
    """Bytes per pixel that an encoder takes for more than the encoded file."""
    if spec.image_encoding is ImageEncoding.RAW:  # rows, and rows joined
        return 2 * (spec.channels or 4)
    if spec.image_encoding is ImageEncoding.WEBP:  # transparency is compressed without loss
        return 8 if spec.channels == 3 else 27
    return 0


def _conversion_peak(image: Image.Image, spec: ImageSpec) -> tuple[int, int]:
    """Bytes per pixel at the peak of the conversion to the channels of the request, and of its result if it is new."""
    channels, source = stored_channels(image), _HELD.get(image.mode, 4)
    mode = image.mode if image.mode in ("LA", "CMYK") else {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    peak = held = source
    wide = "I;16" if image.mode.startswith("I;16") else image.mode
    if wide in _WIDE_GREY:
        peak += _WIDE_GREY[wide] + (_KEY if channels == 4 else 0)
    if mode != image.mode:
        held += 1 if mode == "L" else 4
    profile = image.info.get("icc_profile")
    bands = {"LA": "L", "RGBA": "RGB"}.get(mode, mode)
    if isinstance(profile, bytes) and spec.color_profile is Metadata.APPLY and to_srgb_transform(profile, bands):
        peak = max(peak, held + _PROFILE[mode])
        held += 1 if mode == "L" else 4
    elif mode in ("LA", "CMYK"):
        held += 4
    wanted = min(spec.channels or channels, 3 if spec.image_encoding is ImageEncoding.JPEG else 4)
    if wanted != channels:
        held += (_BLEND if channels == 4 else 0) + (1 if wanted == 1 else 0 if channels == 4 else 4)
    return max(peak, held), 0 if held == source else 1 if wanted == 1 else 4


def _jpeg2000_tile(data: bytes, image: Image.Image) -> float:
    """Bytes of the largest tile, by the SIZ segment (ISO/IEC 15444-1, A.5.1): 32 bits per sample, then packed."""
    start = next((at for kind, at, _ in walk_boxes(data) if kind == b"jp2c"), 0) if data[:1] == b"\0" else 0
    try:
        right, bottom, left, top, width, height = struct.unpack_from(">6I", data, data.index(b"\xff\x51", start) + 6)
        components = struct.unpack_from(">H", data, data.index(b"\xff\x51", start) + 38)[0]
    except (struct.error, ValueError):
        return 0  # the decoder will find out what is missing
    sample = 4.2 + (_JPEG2000_SAMPLE if image.mode.startswith("I;16") else 1)
    return sample * components * min(width, right - left) * min(height, bottom - top) + len(data)


def _tiff_strip(image: TiffImagePlugin.TiffImageFile) -> float:
    """Bytes of one strip or tile of a TIFF, which libtiff decodes at once; Pillow reads uncompressed ones by itself."""
    if not image.tile or image.tile[0][0] != "libtiff":
        return 0
    tags = image.tag_v2
    rows = tags.get(_TIFF_TILE_HEIGHT) or min(tags.get(_TIFF_ROWS, image.height), image.height)
    bits = tags.get(_TIFF_BITS, (1,))
    pixel = max(4, tags.get(_TIFF_SAMPLES, 1) * max(bits if isinstance(bits, tuple) else (bits,)) / 8)
    return pixel * rows * tags.get(_TIFF_TILE_WIDTH, image.width)
