"""What is made of one image."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.quality import Quality


@dataclasses.dataclass(frozen=True)
class ConvertedImage:
    """An image as an example stores it.

    Attributes:
      data: encoded file, or raw [H, W, C] uint8 pixels in row-major order.
      format: "jpeg", "png", "webp", "raw", or the lower-case name of the format of a kept file.
      channels: 1, 3 or 4; of a kept file, what the file has.
      replaced_format: format of a source that was to be kept and is stored as PNG because tf.io.decode_image
        cannot read it, or None.
      kept_orientation: EXIF orientation of a kept file, 2 to 8, which its pixels still need; None if they need none.
      stored_maximum: of a source with more than 8 bits per channel that is stored with 8, the largest value of 255 (of
        a kept one, as readers give it); None of every other.
      channels_left_out: channels of the source that are beside color and transparency that are not stored; None if
        there are none.
      quality: what is measured of the pixels; None of a kept file.
      geometry: how the pixels of the file became those of the stored image; None until the conversion has ended.
    """

    data: bytes
    format: str
    height: int
    width: int
    channels: int
    colorspace: str
    replaced_format: str | None = None
    kept_orientation: int | None = None
    stored_maximum: int | None = None
    channels_left_out: int | None = None
    geometry: Geometry | None = None
    # The codecs differ in it as in the pixels.
    quality: Quality | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a layout that it fills."""
        return {
            "image.encoded": self.data,
            "image.pixels": self.data,
            "image.format": self.format,
            "image.height": self.height,
            "image.width": self.width,
            "image.channels": self.channels,
            "image.colorspace": self.colorspace,
        }

    @property
    def index_columns(self) -> dict[str, Any]:
        """What the index says of it."""
        geometry = self.geometry
        rare = {
            "kept_orientation": self.kept_orientation,
            "stored_maximum": self.stored_maximum,
            "channels_left_out": self.channels_left_out,
            "quality": self.quality,
        }
        return {
            "height": self.height,
            "width": self.width,
            "replaced_format": self.replaced_format,
            "source_height": geometry.height if geometry else None,
            "source_width": geometry.width if geometry else None,
            "orientation": geometry.orientation if geometry else None,
            **{name: value for name, value in rare.items() if value is not None},
        }
