"""From a picture to the bytes that are stored."""

from __future__ import annotations

import io

from PIL import Image

from transforms.errors import FailureReason, SampleError, Stage
from transforms.images.spec import ConvertedImage, ImageEncoding

COLORSPACES = {1: "Grayscale", 3: "RGB", 4: "RGBA"}
# Longest side in pixels that a format (libjpeg, libwebp) can hold.
_LONGEST_SIDE = {ImageEncoding.JPEG: 65_500, ImageEncoding.WEBP: 16_383}


def check_side(height: int, width: int, encoding: ImageEncoding) -> None:
    """Refuses a picture that is too long for its format.

    Raises:
      SampleError: reason `too_many_pixels`.
    """
    limit = _LONGEST_SIDE.get(encoding)
    if limit is not None and max(height, width) > limit:
        detail = f"{width} x {height} does not fit into a {encoding.value} file of at most {limit} per side"
        raise SampleError(Stage.ENCODE, FailureReason.TOO_MANY_PIXELS, detail)


def encode(image: Image.Image, encoding: ImageEncoding, *, quality: int) -> ConvertedImage:
    """An L, RGB or RGBA picture as JPEG, PNG, WebP or raw pixels.

    Pillow's own settings but for the quality, so that the bytes are those of
    `image.save(file, "JPEG", quality=quality)`. JPEG holds no transparency (callers take it away);
    WebP holds no grey, which becomes RGB.

    Raises:
      SampleError: reason `too_many_pixels` if the format cannot hold the size.
    """
    check_side(image.height, image.width, encoding)
    if encoding is ImageEncoding.WEBP and image.mode == "L":
        image = image.convert("RGB")
    if encoding is ImageEncoding.RAW:
        data = image.tobytes()
    else:
        file = io.BytesIO()
        options = {} if encoding is ImageEncoding.PNG else {"quality": quality}
        image.save(file, encoding.value, **options)
        data = file.getvalue()
    channels = len(image.getbands())
    return ConvertedImage(data, encoding.value, image.height, image.width, channels, COLORSPACES[channels])
