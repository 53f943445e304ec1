"""What the name of a folder says: a split, a container of images, annotations, or none of these. Pure functions."""

from __future__ import annotations

import functools
import re
import unicodedata

from beam_tfrecords.output.split_names import SPLIT_NAMES
from beam_tfrecords.transforms.splits import split_of_folder

# fmt: off
# Names in lower case that say what is in a folder, but not what is in the pictures.
_CONTAINERS = frozenset({
    "image", "images", "img", "imgs", "picture", "pictures", "pic", "pics", "photo", "photos", "jpg", "jpgs", "jpeg",
    "jpegs", "png", "pngs", "bmp", "tif", "tiff", "ppm", "data", "dataset", "datasets",
})
# A single folder of these names around others is a container too; beside others they may be classes.
_WEAK = _CONTAINERS | {
    "raw", "all", "files", "original", "originals", "input", "inputs", "samples", "frames", "resized", "archive",
}
# With a number behind them: part_1, batch2.
_SERIES = frozenset({
    "part", "patch", "batch", "fold", "chunk", "shard", "volume", "subset", "image", "images", "img", "imgs", "data",
    "photos",
})
# Names of what describes the pictures, or is made from them.
_ANNOTATIONS = frozenset({
    "mask", "masks", "label", "labels", "annotation", "annotations", "annot", "annots", "anno", "annos", "gt",
    "groundtruth", "segmentation", "segmentations", "trimap", "trimaps", "matte", "mattes", "bbox", "bboxes", "xmls",
    "depth", "disparity", "lr", "lq", "semantic", "instance", "instances", "panoptic",
})
# Those of them that are no masks.
_NO_MASKS = frozenset({"bbox", "bboxes", "xmls", "depth", "disparity", "lr", "lq"})
# Words beside these that do not make another thing of them.
_FILLERS = frozenset({
    "set", "split", "class", "object", "fine", "coarse", "color", "ids", "ground", "truth", "full", "all", "rgb",
})
# fmt: on
_SPLIT_WORD = re.compile(r"(?:set|data|images?|imgs?|files|split)$")
_SPLIT_AND_ANNOTATIONS = re.compile(r"(train|val|valid|test)(?:ing|idation)?(annot|labels?|masks?|gt)")
# trainImages, JPEGImages, part1: words and numbers of a name.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")


def normalize(name: str) -> str:
    """The name as it is compared with others."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


@functools.lru_cache(maxsize=4096)
def split_in_name(name: str) -> str | None:
    """The split that a folder holds by its name, or by a word in it, as in `train2017`, `seg_test` or `trainLabels`."""
    known = split_of_folder(name)
    if known is not None:
        return known
    words = [*re.findall(r"[a-z]+", name.lower()), *_words(name)]
    splits = {SPLIT_NAMES.get(_SPLIT_WORD.sub("", word)) for word in words if len(word) > 2} - {None}
    return splits.pop() if len(splits) == 1 else None


@functools.lru_cache(maxsize=4096)
def is_container(name: str) -> bool:
    """Whether a folder holds pictures of any kind: images, JPEGImages, part_1, images_002."""
    words = _words(name)
    plain = [word for word in words if not word.isdecimal()]
    if words and words[-1].isdecimal() and plain and plain[-1] in _SERIES:
        return True
    return bool(plain) and _CONTAINERS.issuperset(plain)


@functools.lru_cache(maxsize=4096)
def is_wrapper(name: str) -> bool:
    """Whether a folder that is alone in its folder is only around others: images, flower_photos, raw."""
    words = [word for word in _words(name) if not word.isdecimal()]
    return is_container(name) or bool(words and (words[-1] in _CONTAINERS or _WEAK.issuperset(words)))


@functools.lru_cache(maxsize=4096)
def is_annotation(name: str) -> bool:
    """Whether a folder holds what describes the pictures: masks, SegmentationClass, train_labels, gtFine."""
    words = [word for word in _words(name) if not word.isdecimal()]
    if _SPLIT_AND_ANNOTATIONS.fullmatch(name.lower()) or "".join(words) == "groundtruth":
        return True
    others = [word for word in words if word not in _ANNOTATIONS]
    allowed = _FILLERS | _CONTAINERS | SPLIT_NAMES.keys()
    return len(others) < len(words) and allowed.issuperset(others)


def names_annotations(name: str) -> bool:
    """Whether a word of a name says that it is of annotations: 5_Labels_all, PedMasks."""
    return not _ANNOTATIONS.isdisjoint(_words(name)) or {"ground", "truth"} <= {*_words(name)}


def is_mask_folder(name: str) -> bool:
    """Whether a folder of annotations may hold masks."""
    return (is_annotation(name) or names_annotations(name)) and _NO_MASKS.isdisjoint(_words(name))


def plain_path(path: str) -> str:
    """A path without the folders that only tell images from masks."""
    return "/".join(filter(None, map(without_kind, path.split("/"))))


@functools.lru_cache(maxsize=4096)
def without_kind(name: str) -> str:
    """What a folder's name says besides whether images or masks are in it: a split, "" for nothing, or all of it."""
    found = _SPLIT_AND_ANNOTATIONS.fullmatch(name.lower())
    split = split_in_name(found[1] if found else name)
    return split or ("" if is_container(name) or is_annotation(name) else name)


def is_known(name: str) -> bool:
    """Whether the name alone says something."""
    return split_in_name(name) is not None or is_container(name) or is_annotation(name)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
