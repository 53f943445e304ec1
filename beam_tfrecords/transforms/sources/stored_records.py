"""Storage format of the records of an existing dataset that is converted again."""

from __future__ import annotations

import dataclasses

from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.settings import IMAGES, settings_of


@dataclasses.dataclass(frozen=True)
class StoredRecords:
    """Storage format of the records of the inputs.

    Attributes:
      layout: layout of their examples.
      image: image settings of the records; None if the inputs differ in them.
    """

    layout: Layout
    image: ImageSpec | None

    def fits(self, image: ImageSpec) -> bool:
        """Whether the stored images already match the image settings of a request."""
        names = [one.name for one in settings_of(ImageSpec) if one.group == IMAGES]
        return self.image is not None and all(getattr(self.image, name) == getattr(image, name) for name in names)
