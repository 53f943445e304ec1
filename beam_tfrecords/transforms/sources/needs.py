"""The contents that a request needs from its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.splits import Splits

# Class of objects without classes.
ONLY_CLASS = "object"


@dataclasses.dataclass(frozen=True)
class Needs:
    """The contents that a request needs from its source, and the request's splits and classes.

    Attributes:
      contents: contents that the samples get if the source has them. Without images, only a column named `image` is
        read as an image; masks of objects may be drawn from polygons.
      required: contents that the layout of the request names; none if the request leaves the layout to the source.
      columns: columns in the layout; None for all.
      all_columns: samples get all columns, because a user function reads them.
      images: image name -> column with its path, "" to detect it; for several images in the layout or source.
      records: layout of records that are stored as they are, with the features that are known; None for samples that
        are converted.
      splits: the split rule.
      class_names: class names of the request, or empty. Folders with these names are classes.
    """

    contents: frozenset[Content] = frozenset({Content.IMAGE, Content.LABEL, Content.OBJECTS})
    required: frozenset[Content] = frozenset()
    columns: frozenset[str] | None = frozenset()
    all_columns: bool = False
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
