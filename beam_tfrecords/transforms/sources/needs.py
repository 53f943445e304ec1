"""The contents that a request needs from its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.transforms.splits import Splits

# Class of objects without classes.
ONLY_CLASS = "object"


@dataclasses.dataclass(frozen=True)
class Needs:
    """The contents that a request needs from its source, and the request's splits and classes.

    Attributes:
      image: the layout has an image. Without one, only a column named `image` is read as an image.
      label: the layout has a label; the source rejects an input that cannot have labels.
      objects: the layout has annotated objects, or can have them.
      names_objects: the request names a layout with annotated objects.
      polygons: the layout has polygons of annotated objects, or masks that are drawn from them.
      corners: the layout has polygons, so that masks as run lengths do not do.
      keypoints: the layout has keypoints of annotated objects.
      mask: the layout has masks of images.
      array: the layout has images as arrays, which files of arrays hold, too.
      columns: columns in the layout; None for all.
      all_columns: samples get all columns, because a user function reads them.
      boxes_are_columns: box columns stay plain columns unless `box_columns` names them: only the function needs them.
      images: image name -> column with its path, "" to detect it; for several images in the layout or source.
      records: layout of records that are stored as they are, with the features that are known; None for samples that
        are converted.
      splits: the split rule.
      class_names: class names of the request, or empty. Folders with these names are classes.
    """

    image: bool = True
    label: bool = True
    objects: bool = True
    names_objects: bool = False
    polygons: bool = False
    corners: bool = False
    keypoints: bool = False
    mask: bool = False
    array: bool = False
    columns: frozenset[str] | None = frozenset()
    all_columns: bool = False
    boxes_are_columns: bool = False
    images: Mapping[str, str] = dataclasses.field(default_factory=dict)
    records: Layout | None = None
    splits: Splits = dataclasses.field(default_factory=Splits)
    class_names: tuple[str, ...] = ()

    @property
    def only_class(self) -> str:
        """Class of objects whose input says none: the only class of the request, or `ONLY_CLASS`."""
        return self.class_names[0] if len(self.class_names) == 1 else ONLY_CLASS

    @property
    def takes_all(self) -> bool:
        """Whether samples get all columns of the input."""
        return self.columns is None or self.all_columns
