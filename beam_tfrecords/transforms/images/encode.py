"""Encodes pixels to the bytes that are stored."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import ImageEncoding
from beam_tfrecords.transforms.images.plain_png import encode_plain_png

COLORSPACES = {1: "Grayscale", 3: "RGB", 4: "RGBA"}
# Longest side in pixels that libjpeg and libwebp can write.
_LONGEST_SIDE = {ImageEncoding.JPEG: 65_500, ImageEncoding.WEBP: 16_383}
# Bytes of a JPEG comment. Pillow passes the source's comment on, which can be longer in a PNG or GIF.
_LONGEST_COMMENT = 65_533


def check_side(height: int, width: int, encoding: ImageEncoding) -> None:
    """Checks a size against the limits of an encoding.

    Raises:
      SampleError: reason `too_many_pixels`.
    """
    limit = _LONGEST_SIDE.get(encoding)
    if limit is not None and max(height, width) > limit:
        detail = f"{width} x {height} exceeds the {limit} pixels per side of {encoding.name}"
        raise SampleError(Stage.ENCODE, FailureReason.TOO_MANY_PIXELS, detail)


def encode(image: Image.Image, encoding: ImageEncoding, *, jpeg_quality: int, **known: Any) -> ConvertedImage:
    """Encodes an L, RGB or RGBA image as JPEG, PNG, WebP or raw pixels.

    Writes the same bytes as `image.save(file, "JPEG", quality=jpeg_quality)`: Pillow's defaults except for the quality.
    JPEG has no transparency, so callers remove it; WebP has no grey, so this function converts grey to RGB.

    Args:
      known: other attributes of the `ConvertedImage`.

    Raises:
      SampleError: reason `too_many_pixels` if the encoding cannot hold the size.
    """
    check_side(image.height, image.width, encoding)
    if encoding is ImageEncoding.WEBP and image.mode == "L":
        image = image.convert("RGB")
    comment = image.info.get("comment", b"")
    if len(comment.encode() if isinstance(comment, str) else comment) > _LONGEST_COMMENT:
        del image.info["comment"]
    data = encode_plain_png(image) if encoding is ImageEncoding.PNG else None
    if encoding is ImageEncoding.RAW:
        data = image.tobytes()
    elif data is None:
        file = io.BytesIO()
        options = {} if encoding is ImageEncoding.PNG else {"quality": jpeg_quality}
        image.save(file, encoding.value, **options)
        data = file.getvalue()
    channels = len(image.getbands())
    return ConvertedImage(data, encoding.value, image.height, image.width, channels, COLORSPACES[channels], **known)
