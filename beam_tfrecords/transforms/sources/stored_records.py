"""How the records of a dataset of ours are stored that is converted again."""

from __future__ import annotations

import dataclasses

from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.settings import IMAGES, settings_of


@dataclasses.dataclass(frozen=True)
class StoredRecords:
    """How the records of the inputs are stored.

    Attributes:
      layout: of their examples.
      image: how their images were made; None if the inputs differ in it.
    """

    layout: Layout
    image: ImageSpec | None

    def fits(self, image: ImageSpec) -> bool:
        """Whether stored images are what a request makes of them."""
        names = [one.name for one in settings_of(ImageSpec) if one.group == IMAGES]
        return self.image is not None and all(getattr(self.image, name) == getattr(image, name) for name in names)
