"""The contents that a request needs from its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_tfrecords.transforms.splits import Splits


@dataclasses.dataclass(frozen=True)
class Needs:
    """The contents that a request needs from its source, and the request's splits and classes.

    Attributes:
      image: the layout has an image. Without one, only a column named `image` is read as an image.
      label: the layout has a label; the source rejects an input that cannot have labels.
      objects: the layout has annotated objects, or can have them.
      names_objects: the request names a layout with annotated objects.
      polygons: the layout has masks of annotated objects.
      keypoints: the layout has keypoints of annotated objects.
      mask: the layout has masks of images.
      columns: columns in the layout; None for all.
      all_columns: samples get all columns, because a user function reads them.
      boxes_are_columns: box columns stay plain columns unless `box_columns` names them: only the function needs them.
      images: image name -> column with its path, "" to detect it; for several images in the layout or source.
      splits: the split rule.
      class_names: class names of the request, or empty. Folders with these names are classes.
    """

    image: bool = True
    label: bool = True
    objects: bool = True
    names_objects: bool = False
    polygons: bool = False
    keypoints: bool = False
    mask: bool = False
    columns: frozenset[str] | None = frozenset()
    all_columns: bool = False
    boxes_are_columns: bool = False
    images: Mapping[str, str] = dataclasses.field(default_factory=dict)
    splits: Splits = dataclasses.field(default_factory=Splits)
    class_names: tuple[str, ...] = ()

    @property
    def takes_all(self) -> bool:
        """Whether samples get all columns of the input."""
        return self.columns is None or self.all_columns
