"""The result of converting one image."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_tfrecords.examples.layouts import ARRAY_FIELD, DTYPE_FIELD, SHAPE_FIELD
from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.quality import Quality


@dataclasses.dataclass(frozen=True)
class ConvertedImage:
    """An image in the form that an example stores.

    Attributes:
      data: encoded file, or raw [H, W, C] pixels in row-major order.
      format: "jpeg", "png", "webp", "raw", or the lower-case name of the format of a kept file.
      channels: 1, 3 or 4; for a kept file, the channels of the file; any number for an array.
      replaced_format: format of a source that should be kept but is stored as PNG because of its kind; else None.
      kept_orientation: EXIF orientation of a kept file, 2 to 8, that readers must still apply; None if there is none.
      stored_maximum: largest value, 0 to 255, of an image stored with 8 bits whose source has more (for a kept file, as
        readers decode it); None for all other images.
      quality: its measures; None for a kept file and for an array.
      dtype: type of the numbers of raw pixels, such as "uint16".
      geometry: maps the pixels of the file to those of the stored image; None until the conversion has finished.
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
    geometry: Geometry | None = None
    dtype: str = "uint8"
    # Not compared, because the codecs differ slightly in pixels and so in quality.
    quality: Quality | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> dict[str, Any]:
        """Field of a layout -> value."""
        return {
            "image.encoded": self.data,
            "image.pixels": self.data,
            ARRAY_FIELD: self.data,
            SHAPE_FIELD: [self.height, self.width, self.channels],
            DTYPE_FIELD: self.dtype,
            "image.format": self.format,
            "image.height": self.height,
            "image.width": self.width,
            "image.channels": self.channels,
            "image.colorspace": self.colorspace,
        }

    @property
    def index_columns(self) -> dict[str, Any]:
        """Index column -> value."""
        geometry = self.geometry
        rare = {
            "kept_orientation": self.kept_orientation,
            "stored_maximum": self.stored_maximum,
        }
        return {
            "height": self.height,
            "width": self.width,
            "replaced_format": self.replaced_format,
            "source_height": geometry.height if geometry else None,
            "source_width": geometry.width if geometry else None,
            "orientation": geometry.orientation if geometry else None,
            **{name: value for name, value in rare.items() if value is not None},
            **(self.quality._asdict() if self.quality else {}),
        }
