"""What the names of columns say: the usual names of each role. Pure functions."""

from __future__ import annotations

import re

from beam_tfrecords.transforms.sources.names import IMAGE_EXTENSIONS

# The usual names, in order of preference, without regard to case, spaces and underscores. The first is the
# documented one: it is taken without a note.
IMAGE_NAMES = (
    "image", "imagepath", "imagefile", "imgpath", "path", "filepath", "filename", "file", "imagename", "img",
    "imageurl", "imgurl", "url",
)  # fmt: skip
MASK_NAMES = (
    "mask", "maskpath", "maskfile", "maskfilename", "maskname", "segmentation", "annotation", "segmentationmask",
    "image/segmentation/class/encoded", "masks", "seg",
)  # fmt: skip
USUAL_LABELS = ("label", "labels", "class", "classname", "classes", "category")
# Columns whose names, in lower case and without marks, say that they hold the class, or that they do not.
LABEL_NAMES = re.compile(
    r"label|class|category|species|breed|diagnosis|^dx$|disease|emotion|^target$|^y$|variety|genus|landmark"
)
NOT_LABEL_NAMES = re.compile(
    r"source|confidence|conf$|prob|count|group|path|file|url|width|height|age$|year|date|time|score|price|rating|text|caption"
    r"|split|^set$|subset|partition|phase|usage|fold"
)


_MASK_WORDS = re.compile("mask|seg|annot")


def plain_name(name: str) -> str:
    """A column's name as usual names are compared with it; that of a member of an archive without its extension."""
    stem, _, extension = name.lower().rpartition(".")
    return re.sub(r"[\s_-]", "", stem if stem and f".{extension}" in IMAGE_EXTENSIONS else name.lower())


def is_mask_name(name: str) -> bool:
    """Whether a column holds masks by a word in its name."""
    return bool(_MASK_WORDS.search(name.lower()))


def is_label_name(name: str) -> bool:
    """Whether a column holds the class by a word in its name."""
    plain = plain_name(name)
    return bool(LABEL_NAMES.search(plain)) and not NOT_LABEL_NAMES.search(plain)
