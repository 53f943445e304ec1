"""Usual column names of each role. Pure functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from beam_tfrecords.nearest import find_near
from beam_tfrecords.transforms.sources.names import IMAGE_EXTENSIONS

# Usual names in order of preference, compared without case, spaces and underscores. The first name is the documented
# one and is used without a note.
IMAGE_NAMES = (
    "image", "imagepath", "imagefile", "imgpath", "path", "filepath", "filename", "file", "imagename", "img",
    "imageurl", "imgurl", "url",
)  # fmt: skip
MASK_NAMES = (
    "mask", "maskpath", "maskfile", "maskfilename", "maskname", "segmentation", "annotation", "segmentationmask",
    "image/segmentation/class/encoded", "masks", "seg",
)  # fmt: skip
USUAL_LABELS = ("label", "labels", "class", "classname", "classes", "category")
# Words in plain column names that indicate a column of classes, or rule it out.
LABEL_NAMES = re.compile(
    r"label|class|category|species|breed|diagnosis|^dx$|disease|emotion|^target$|^y$|variety|genus|landmark"
)
# Words in column names that rule out classes, and how such a name begins that is one word: imagepath, patientage.
_NOT_LABEL_WORDS = frozenset(
    {
        "source",
        "confidence",
        "conf",
        "prob",
        "probability",
        "count",
        "group",
        "path",
        "filepath",
        "file",
        "filename",
        "url",
        "width",
        "height",
        "age",
        "year",
        "date",
        "datetime",
        "time",
        "timestamp",
        "score",
        "price",
        "rating",
        "text",
        "caption",
        "split",
        "set",
        "subset",
        "partition",
        "phase",
        "usage",
        "fold",
        "kfold",
    }
)
OF_PEOPLE = "person|patient|subject|user|face|real|apparent|bone|mean"
_BEGINNINGS = re.compile(
    rf"^(?:image|img|photo|pic|picture|frame|video|mask|full|abs|rel|birth|box|bbox|num|{OF_PEOPLE})"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TEXT_NAMES = re.compile(r"caption|description|^text$|comment|report|prompt")
# Names of split columns, in order of preference. Any word in the first, documented one is a split. The others count if
# their words are split names; they take precedence over columns with other names.
SPLIT_NAMES = ("split", "set", "subset", "partition", "phase", "usage", "fold", "kfold")
# Fields with the sides of a box, or of several.
BOX_NAMES = frozenset({"bbox", "bboxes", "box", "boxes", "bndbox", "boundingbox", "boundingboxes"})

_MEANT = BOX_NAMES | {*MASK_NAMES, *USUAL_LABELS, "objects", "annotations"}
_MASK_WORDS = re.compile("mask|seg|annot")


@functools.lru_cache(maxsize=1 << 16)
def plain_name(name: str) -> str:
    """Normalizes a column name for comparison with usual names; strips the image extension of an archive member."""
    stem, _, extension = name.lower().rpartition(".")
    return re.sub(r"[\s_-]", "", stem if stem and f".{extension}" in IMAGE_EXTENSIONS else name.lower())


def is_mask_name(name: str) -> bool:
    """Whether a column's name contains a word for masks."""
    return bool(_MASK_WORDS.search(name.lower()))


def is_label_name(name: str) -> bool:
    """Whether a column's name contains a word for classes."""
    return bool(LABEL_NAMES.search(plain_name(name))) and not names_no_label(name)


@functools.lru_cache(maxsize=1 << 16)
def names_no_label(name: str) -> bool:
    """Whether a word of a column's name rules out classes; a part of a word, such as the age in damage, does not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return any(
        not _NOT_LABEL_WORDS.isdisjoint({one, one.removesuffix("s")})
        for word in words
        for one in (word, _BEGINNINGS.sub("", word))
    )


def is_plural(name: str) -> bool:
    """Whether a column's name is a plural, such as `tags`; `class`, `species` and `diagnosis` are none."""
    plain = plain_name(name)
    return plain.endswith("s") and not plain.endswith(("ss", "us", "is", "species"))


def may_be_label(name: str) -> bool:
    """Whether a column's name contains a word for classes, or a misspelled one."""
    return is_label_name(name) or find_near(name, USUAL_LABELS) is not None


def may_be_meant(name: str) -> bool:
    """Whether a column's name is a usual one for splits, labels, masks, boxes or annotated objects."""
    plain = plain_name(name)
    return plain in _MEANT or is_split_name(name) or is_label_name(name)


def is_split_name(name: str) -> bool:
    """Whether a column has a usual name of split columns."""
    return plain_name(name) in SPLIT_NAMES


def find_usual(columns: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Yields the columns with one of the usual names, in the order of these names."""
    if names and names[0] in columns:
        yield names[0]
    plain = {plain_name(column): column for column in reversed(columns)}
    yield from (plain[name] for name in dict.fromkeys(names) if name in plain and plain[name] != names[0])
