"""The result of converting one image, and the encoders of its pixels."""

from __future__ import annotations

import dataclasses
import io
from typing import Any, NamedTuple

import cv2
import numpy as np
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.fields import OF_IMAGE
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.plain_png import encode_plain_png
from beam_tfrecords.transforms.images.quality import Quality, measure_array, measure_image

COLORSPACES = {1: "Grayscale", 3: "RGB", 4: "RGBA"}
# Longest side in pixels that libjpeg and libwebp can write.
_LONGEST_SIDE = {ImageEncoding.JPEG: 65_500, ImageEncoding.WEBP: 16_383}
# Bytes of a JPEG comment. Pillow passes the source's comment on, which can be longer in a PNG or GIF.
_LONGEST_COMMENT = 65_533
# The same level as Pillow's default.
_PNG_OPTIONS = [cv2.IMWRITE_PNG_COMPRESSION, 6]


@dataclasses.dataclass(frozen=True)
class ConvertedImage:
    """An image in the form that an example stores.

    Attributes:
      data: encoded file, or raw [H, W, C] pixels in row-major order.
      format: "jpeg", "png", "webp", "raw", or the lower-case name of the format of a kept file.
      channels: 1, 3 or 4; for a kept file, the channels of the file; any number for an array.
      geometry: maps the pixels of the file to the pixels of the stored image.
      replaced_format: format of a source that should be kept but is stored as PNG because of its kind; else None.
      kept_orientation: EXIF orientation of a kept file, 2 to 8, that readers must still apply; None if there is none.
      stored_maximum: largest value, 0 to 255, of an image stored with 8 bits whose source has more (for a kept file, as
        readers decode it); None for all other images.
      quality: what is measured of it; None for a kept file and for an array.
      dtype: type of the numbers of raw pixels, such as "uint16".
    """

    data: bytes
    format: str
    height: int
    width: int
    channels: int
    colorspace: str
    geometry: Geometry
    replaced_format: str | None = None
    kept_orientation: int | None = None
    stored_maximum: int | None = None
    dtype: str = "uint8"
    # Not compared, because the codecs differ slightly in pixels and so in quality.
    quality: Quality | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> dict[str, Any]:
        """Field of a layout -> value."""
        return {name: value_of(self) for name, value_of in OF_IMAGE.items()}

    @property
    def index_columns(self) -> dict[str, Any]:
        """Index column -> value; the columns of `quality` are made of a batch."""
        rare = {
            "kept_orientation": self.kept_orientation,
            "stored_maximum": self.stored_maximum,
        }
        return {
            "height": self.height,
            "width": self.width,
            "replaced_format": self.replaced_format,
            "source_height": self.geometry.height,
            "source_width": self.geometry.width,
            "orientation": self.geometry.orientation,
            **{name: value for name, value in rare.items() if value is not None},
            **({"quality": self.quality} if self.quality else {}),
        }


class PlacedPixels(NamedTuple):
    """The pixels of a stored image before they are encoded.

    Attributes:
      pixels: an L, RGB or RGBA image of Pillow; or [H, W] or [H, W, C] uint8 or uint16.
      geometry: maps the pixels of the file to these.
      stored_maximum: as in `ConvertedImage`.
      is_bgr: whether the channels of an array are in OpenCV's order.
    """

    pixels: Image.Image | np.ndarray
    geometry: Geometry
    stored_maximum: int | None = None
    is_bgr: bool = False


def encode(placed: PlacedPixels, spec: ImageSpec) -> ConvertedImage:
    """Measures and encodes pixels as JPEG, PNG, WebP or raw pixels.

    Files of 8 bits have the bytes of `image.save(file, "JPEG", quality=jpeg_quality)`: Pillow's defaults except for the
    quality. JPEG has no transparency, so callers remove it; WebP has no gray, so this function converts gray to RGB.

    Raises:
      SampleError: reason `too_many_pixels` if the encoding cannot hold the size.
    """
    pixels = placed.pixels
    if isinstance(pixels, Image.Image):
        (width, height), channels, quality = pixels.size, len(pixels.getbands()), measure_image(pixels)
    else:
        height, width, channels = pixels.shape if pixels.ndim == 3 else (*pixels.shape, 1)
        quality = measure_array(pixels, "BGR" if placed.is_bgr else COLORSPACES[channels])
    _check_side(height, width, spec.image_encoding)
    data = _encode_image(pixels, spec) if isinstance(pixels, Image.Image) else _encode_array(pixels, spec)
    if spec.image_encoding is ImageEncoding.WEBP:
        channels = max(channels, 3)
    return ConvertedImage(
        data,
        spec.image_encoding.value,
        height,
        width,
        channels,
        COLORSPACES[channels],
        placed.geometry,
        stored_maximum=placed.stored_maximum,
        quality=quality,
    )


def describe_raw(data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], geometry: Geometry) -> ConvertedImage:
    """Describes raw [H, W, C] numbers."""
    height, width, channels = shape
    colors = COLORSPACES.get(channels, "")
    return ConvertedImage(data, "raw", height, width, channels, colors, geometry, dtype=dtype.name)


def swap_red_and_blue(pixels: np.ndarray) -> np.ndarray:
    """Converts between RGB and OpenCV's order of channels; returns gray unchanged."""
    if pixels.ndim == 2:
        return pixels
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if pixels.shape[2] == 3 else cv2.COLOR_BGRA2RGBA)


def _check_side(height: int, width: int, encoding: ImageEncoding) -> None:
    limit = _LONGEST_SIDE.get(encoding)
    if limit is not None and max(height, width) > limit:
        detail = f"{width} x {height} exceeds the {limit} pixels per side of {encoding.name}"
        raise SampleError(Stage.ENCODE, FailureReason.TOO_MANY_PIXELS, detail)


def _encode_array(pixels: np.ndarray, spec: ImageSpec) -> bytes:
    if pixels.dtype == np.uint16:
        return cv2.imencode(".png", swap_red_and_blue(pixels), _PNG_OPTIONS)[1].tobytes()
    if spec.image_encoding is ImageEncoding.JPEG:
        # The bytes that Pillow would write.
        return cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, spec.jpeg_quality])[1].tobytes()
    if spec.image_encoding is ImageEncoding.RAW:
        return pixels.tobytes()
    return _encode_image(Image.fromarray(pixels), spec)


def _encode_image(image: Image.Image, spec: ImageSpec) -> bytes:
    if spec.image_encoding is ImageEncoding.RAW:
        return image.tobytes()
    if spec.image_encoding is ImageEncoding.WEBP and image.mode == "L":
        image = image.convert("RGB")
    comment = image.info.get("comment", b"")
    if len(comment.encode() if isinstance(comment, str) else comment) > _LONGEST_COMMENT:
        del image.info["comment"]
    if spec.image_encoding is ImageEncoding.PNG and (data := encode_plain_png(image)) is not None:
        return data
    file = io.BytesIO()
    options = {} if spec.image_encoding is ImageEncoding.PNG else {"quality": spec.jpeg_quality}
    image.save(file, spec.image_encoding.value, **options)
    return file.getvalue()
