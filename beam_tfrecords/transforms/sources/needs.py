"""What a request needs of its source: what its layout stores, its splits and its classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_tfrecords.transforms.splits import Splits


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a request needs of its source.

    Attributes:
      image: whether the layout has an image; otherwise only a column `image` is taken for one.
      label: whether the layout has a label; an input that cannot have labels is then refused.
      objects: whether it has annotated objects, or may have them.
      names_objects: whether the request names a layout with annotated objects.
      outlines: whether it has masks of annotated objects.
      keypoints: whether it has keypoints of them.
      mask: whether it has masks of images.
      columns: columns that the layout asks for; None for all.
      all_columns: whether samples have all columns, because a function of the user is given them.
      boxes_are_columns: whether columns of boxes are no objects unless `box_columns` names them, because only that
        function may need them.
      images: name of an image -> the column with its path, "" to find it, where the layout or the source names several.
      splits: the rule of the splits.
      class_names: the classes that the request names; empty if it names none. Folders of these names are classes.
    """

    image: bool = True
    label: bool = True
    objects: bool = True
    names_objects: bool = False
    outlines: bool = False
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
        """Whether samples have all columns that there are."""
        return self.columns is None or self.all_columns
