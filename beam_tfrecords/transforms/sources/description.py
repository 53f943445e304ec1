"""What a source sees in its input. Pure values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from beam_tfrecords.errors import Reading
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, Scalar
from beam_tfrecords.transforms.settings import IMAGES, settings_of
from beam_tfrecords.transforms.sources.class_files import FoundClasses
from beam_tfrecords.transforms.sources.tables.table import Table

# Field of an input -> prefixes of the layout's fields that store it. A field without prefixes is not stored itself: it
# identifies an image, a class or a split.
Uses: TypeAlias = Mapping[str, Sequence[str]]
STRUCTURE: Sequence[str] = ()
# Where the classes, boxes and outlines of annotated objects are stored.
CLASS = ("label", "objects.index", "objects.id", "objects.name", "mask.")
BOX = ("objects.",)
OUTLINE = ("objects.polygon", "objects.mask", "mask.")
KEYPOINTS = ("objects.keypoint_",)


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


@dataclasses.dataclass(frozen=True)
class Labels:
    """What the labels of an input are.

    Attributes:
      names: class names in index order, if the source defines them; labels are then names.
      numbers: path of a file or dataset -> class -> its number there, if the input numbers classes that have names; one
        file of those that number them alike is enough. Numbers of a dataset of ours are indices.
      may_be_indices: whether a numeric label is a class index; never true for folder names.
      are_numbered: whether labels are `numbered_label`s.
      first: number of the class with index 0, if the source has class numbers and no names.
      length: number of zeros and ones in a label that is a list of them; 0 for other labels.
      text_column: column whose texts name the classes of labels that are numbers, if each class has one text; labels
        are then `numbered_label`s. "" for other labels.
      number_column: column with the class numbers of labels that are texts, likewise.
    """

    names: Sequence[str] = ()
    numbers: Mapping[str, Mapping[Scalar, int]] = dataclasses.field(default_factory=dict)
    may_be_indices: bool = False
    are_numbered: bool = False
    first: int = 0
    length: int = 0
    text_column: str = ""
    number_column: str = ""

    @property
    def by_file(self) -> Mapping[str, Mapping[Scalar, int]]:
        """The numbers of each file; "" -> the numbers of all files if these have the same number for each class."""
        every: dict[Scalar, int] = {}
        for numbers in self.numbers.values():
            if any(every.setdefault(name, number) != number for name, number in numbers.items()):
                return self.numbers
        return {"": every} if every else {}


@dataclasses.dataclass(frozen=True)
class Description:
    """What a source sees in its input, for the needs of a request.

    Attributes:
      unit: word for one sample in messages: "image", "row", "record" or "sample".
      provides: contents of the samples.
      images: name of each image of a sample -> whether it is a list of images; empty for rows without images.
      other_images: images of a sample that the request does not use.
      table: columns and first rows of the table; None for a source without columns.
      other_tables: further tables of the input, with columns that `table` lacks.
      columns: columns of the samples; empty for a source without columns.
      column_types: column -> "int64", "float" or "bytes"; None if the source has no types.
      column_classes: column whose values are class numbers -> class names in index order, if the source declares them;
        empty names if its files declare different ones.
      used: columns that the request uses.
      split_column: column with the splits, or None.
      label_column: column with the labels, or None.
      has_several_labels: whether a sample may have several labels or none.
      labels: what the labels are.
      found_classes: class names in files beside the samples, which name labels that they fit.
      uses: fields of documents that the reader uses, and the fields of a layout that store them.
      draft: mapping that was drafted from documents, as YAML; "" for other inputs.
      groups_rows: whether rows with the same key form one sample, as with one row per box.
      prefix_depth: number of folders that key prefixes have, if folders give labels or splits; None for other sources.
      last_member_wins: whether the last of several archive members with the same name counts, as in extraction.
      other_labels: returns a message about other possible sources of labels, and readings.
      join: joins the columns of tables to the listed samples; None if there are none, or the source joins them.
      records: storage format of the records, if the samples are records of an existing dataset; else None.
      kept_layout: layout of the records, if they are stored as they are; else None.
    """

    unit: str = "image"
    provides: frozenset[Content] = frozenset({Content.IMAGE, Content.LABEL})
    images: Mapping[str, bool] = dataclasses.field(default_factory=lambda: {IMAGE: False})
    other_images: Sequence[str] = ()
    table: Table | None = None
    other_tables: Sequence[Table] = ()
    columns: Sequence[str] = ()
    column_types: Mapping[str, str] | None = None
    column_classes: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    used: Collection[str | None] = frozenset()
    split_column: str | None = None
    label_column: str | None = None
    has_several_labels: bool = False
    labels: Labels = Labels()
    found_classes: Sequence[FoundClasses] = ()
    uses: Uses = dataclasses.field(default_factory=dict)
    draft: str = ""
    groups_rows: bool = False
    prefix_depth: int | None = None
    last_member_wins: bool = False
    other_labels: Callable[[], tuple[str, Sequence[Reading]]] | None = None
    join: Any = None
    records: StoredRecords | None = None
    kept_layout: Layout | None = None

    @property
    def is_inferred_later(self) -> bool:
        """Whether folders give labels or splits, so that `Source.finish` determines them."""
        return self.prefix_depth is not None
