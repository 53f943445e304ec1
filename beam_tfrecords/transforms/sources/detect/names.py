"""Classifies folder names: splits, containers of images, annotations, or none of these. Pure functions."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence

from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.transforms.splits import split_of_folder

# fmt: off
# Words in lower case for the kind of files in a folder, independent of what the images show.
_CONTAINERS = frozenset({
    "image", "images", "img", "imgs", "picture", "pictures", "pic", "pics", "photo", "photos", "jpg", "jpgs", "jpeg",
    "jpegs", "png", "pngs", "bmp", "tif", "tiff", "ppm", "data", "dataset", "datasets",
})
# A single folder with these names is also a container; next to other folders it may be a class.
_WEAK = _CONTAINERS | {
    "raw", "all", "files", "original", "originals", "input", "inputs", "samples", "frames", "resized", "archive",
}
# Words followed by a number: part_1, batch2.
_SERIES = frozenset({
    "part", "patch", "batch", "fold", "chunk", "shard", "volume", "subset", "image", "images", "img", "imgs", "data",
    "photos",
})
# Words for annotations of images, or for images derived from them.
_ANNOTATIONS = frozenset({
    "mask", "masks", "label", "labels", "annotation", "annotations", "annot", "annots", "anno", "annos", "gt",
    "groundtruth", "segmentation", "segmentations", "trimap", "trimaps", "matte", "mattes", "bbox", "bboxes",
    "xmls", "depth", "disparity", "lr", "lq", "semantic", "semantics", "instance", "instances", "panoptic",
})
# Annotation words that do not mean masks.
_NO_MASKS = frozenset({"bbox", "bboxes", "xmls", "depth", "disparity", "lr", "lq"})
# Words that may accompany annotation words.
_FILLERS = frozenset({
    "set", "split", "class", "object", "fine", "coarse", "color", "ids", "ground", "truth", "full", "all", "rgb",
    "manual", "left", "right",
})
# Words in the names of folders and files with images of the same things.
VIEWS = frozenset({
    "left", "right", "center", "centre", "middle", "front", "back", "rear", "top", "bottom", "side", "before",
    "after", "pre", "post", "first", "second", "image", "img", "anchor", "query", "lr", "hr",
    "low", "high", "lowres", "highres", "rgb", "ir", "nir", "depth", "thermal", "infrared", "fundus", "oct",
    "visible", "vis", "color", "colour", "gray", "grey", "input", "target", "source", "output", "reference", "ref",
    "noisy", "clean", "blur", "sharp", "hazy", "clear", "rain", "rainy", "photo", "sketch", "sketches", "edge",
    "disparity", "disp", "normal", "flow",
})
# Words for classes among which a train is one.
_VEHICLES = frozenset({
    "bus", "car", "truck", "tram", "bike", "bicycle", "motorcycle", "motorbike", "airplane", "aeroplane", "plane",
    "aircraft", "helicopter", "boat", "ship", "van", "taxi", "subway", "metro", "vehicle", "scooter", "ferry",
})
# Short words for other splits, beside tr.
_SHORT = frozenset({"te", "ts", "va", "vl"})
# fmt: on
_SPLIT_WORD = re.compile(r"(?:set|data|images?|imgs?|files|split)$")
_TRAIN_AND_VALIDATION = re.compile(r"train_?val(?![a-z])", re.IGNORECASE)
# Test images of COCO and VisDrone, and MNIST's name for its own.
_TEST_DEV = re.compile(r"test[_-]?dev(?![a-z])|t10k", re.IGNORECASE)
_SPLIT_AND_ANNOTATIONS = re.compile(r"(train|val|valid|test)(?:ing|idation)?(annot|labels?|masks?|gt)")
# Splits of nnU-Net and the Medical Segmentation Decathlon: imagesTr, labelsTs.
_SHORT_SPLIT = re.compile(r"(?<=images|labels)T[rs]$")
# The word before the number of a file: image_1, mask12, flow_x_1.
_FIRST_WORD = re.compile(r"([A-Za-z]+)(?:[_. -][A-Za-z])?[_. -]*(?=\d)")
# Names of parts, which are seldom classes: of films, of days, of hashes by their first letters, and padded numbers.
_PARTS = re.compile(
    r"(?P<word>video|vid|clip|seq(?:uence)?|scene|run|cam(?:era)?|patient|case|subject|session|day|frame)s?[_. -]?"
    r"(?:\d+|[a-z])|(?P<date>\d{4}[_.-]?\d{2}(?:[_.-]?\d{2})?)|(?P<hash>[0-9a-f]{2})|(?P<padded>0\d{2,})",
    re.IGNORECASE,
)
_MOST_DIGITS = 16
_HASH = re.compile(r"(?=.*\d)[0-9a-f]{6,}")
_PLAIN_WORDS = re.compile(r"[a-z]+|\d+")
# Splits names such as trainImages, JPEGImages and part1 into words and numbers.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")


def normalize(name: str) -> str:
    """Normalizes a name for comparison (Unicode NFC)."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


@functools.lru_cache(maxsize=4096)
def split_in_name(name: str) -> str | None:
    """Returns the split in a name, or in a word of it, as in `train2017`, `seg_test` or `trainLabels`; or None."""
    known = split_of_folder(name)
    if known is not None:
        return known
    name = _spell_splits(name)
    words = [*re.findall(r"[a-z]+", name.lower()), *_words(name)]
    splits = {SPLIT_NAMES.get(_SPLIT_WORD.sub("", word)) for word in words if len(word) > 2} - {None}
    return splits.pop() if len(splits) == 1 else None


def is_of_another_split(path: str, split: str | None) -> bool:
    """Whether the path of a folder names a split other than this one; False if this split is unknown."""
    found = {*map(split_in_name, path.split("/"))} - {None}
    return bool(found) and split is not None and split not in found


def rank_folder(path: str, split: str | None) -> tuple[bool, bool]:
    """Ranks a folder that may hold the images of a split's table or list; the likely folders come first.

    Folders of masks, which have the names of their images, come last, and folders of another split before these.
    """
    return any(map(is_annotation, path.split("/"))), is_of_another_split(path, split)


def named_split(name: str) -> tuple[str | None, bool]:
    """Returns `split_in_name`, and whether the name says little else: `val2017`, `test_images` or `mnist_test`."""
    split = split_in_name(name)
    if split is None or split_of_folder(name):
        return split, split is not None
    known = _CONTAINERS | _WEAK | _SERIES | _ANNOTATIONS | _FILLERS | {"idx"}
    words = [word for word in _words(_spell_splits(name)) if not word.isdecimal() and word not in known]
    return split, bool(words) and SPLIT_NAMES.get(_SPLIT_WORD.sub("", words[-1])) == split


def is_split(name: str) -> bool:
    """Whether a name says a split and nothing else, as `test`, `train_set` and `val-images`."""
    return _SPLIT_WORD.sub("", "".join(_words(_spell_splits(name)))) in SPLIT_NAMES or split_of_folder(name) is not None


def without_split(name: str) -> list[str]:
    """Returns the words of a name that do not name a split."""
    return [word for word in _words(name) if word not in SPLIT_NAMES]


def are_parts(names: Sequence[str]) -> bool:
    """Whether the names of several folders are those of parts, such as video_0001, 2021-03, 0007, or a0 to ff."""
    kinds = {found and found.lastgroup for found in map(_PARTS.fullmatch, names)}
    if kinds == {"hash"}:
        # Ten numbers of two digits may be classes.
        return len(names) > _MOST_DIGITS and any(not name.isdecimal() for name in names)
    return len(names) > 1 and None not in kinds and len(kinds) == 1


def are_numbered(names: Sequence[str]) -> bool:
    """Whether the names of several folders are one word with different numbers, such as v001 and v002, or hashes."""
    words = {re.sub(r"\d+$", "", name) for name in names}
    are_words = len(words) == 1 and words != {""} and all(name[-1:].isdecimal() for name in names)
    return len(names) > 1 and (are_words or all(map(_HASH.fullmatch, names)))


@functools.lru_cache(maxsize=4096)
def is_container(name: str) -> bool:
    """Whether a folder's name means a container of images, such as images, JPEGImages, part_1 or images_002."""
    words = _words(name)
    plain = [word for word in words if not word.isdecimal()]
    if words and words[-1].isdecimal() and plain and plain[-1] in _SERIES:
        return True
    return bool(plain) and _CONTAINERS.issuperset(plain)


@functools.lru_cache(maxsize=4096)
def is_wrapper(name: str) -> bool:
    """Whether a single folder's name means that it only wraps other folders, such as images, flower_photos or raw."""
    words = [word for word in _words(name) if not word.isdecimal()]
    return is_container(name) or bool(words and (words[-1] in _CONTAINERS or _WEAK.issuperset(words)))


@functools.lru_cache(maxsize=4096)
def is_annotation(name: str) -> bool:
    """Whether a folder's name means annotations, such as masks, SegmentationClass, train_labels or gtFine."""
    words = [word for word in _words(name) if not word.isdecimal()]
    if _SPLIT_AND_ANNOTATIONS.fullmatch(name.lower()) or "".join(words) == "groundtruth":
        return True
    others = [word for word in words if word not in _ANNOTATIONS]
    allowed = _FILLERS | _CONTAINERS | SPLIT_NAMES.keys()
    return len(others) < len(words) and allowed.issuperset(others)


def names_annotations(name: str) -> bool:
    """Whether a name contains an annotation word, such as 5_Labels_all or PedMasks."""
    return not _ANNOTATIONS.isdisjoint(_words(name)) or {"ground", "truth"} <= {*_words(name)}


def is_mask_folder(name: str) -> bool:
    """Whether a folder's name means annotations that may be masks."""
    return (is_annotation(name) or names_annotations(name)) and _NO_MASKS.isdisjoint(_words(name))


def ends_in_mask(name: str) -> bool:
    """Whether the last word of a name is mask or masks, as in `lung masks`."""
    return _words(name)[-1:] in (["mask"], ["masks"])


def match_names(names: Sequence[str], others: Sequence[str]) -> list[int]:
    """Pairs each name with the other name that shares most words; returns their indices, or [] if a pair is unclear.

    As `cats_masks` for `Cats_images`, and `batch` for `batch.json` beside `batch-2`.
    """
    found = []
    for name in names:
        shared = [likeness(name, other) for other in others]
        if not others or not max(shared)[0] or shared.count(max(shared)) > 1:
            return []
        found.append(shared.index(max(shared)))
    return found if len({*found}) == len(found) else []


def likeness(name: str, other: str) -> tuple[int, int]:
    """Returns the number of words that two names share, and the negative number of words that only one of them has."""
    words, others = ({*_PLAIN_WORDS.findall(one.lower())} for one in (name, other))
    return len(words & others), -len(words ^ others)


def plain_path(path: str) -> str:
    """Returns a path without folders that only distinguish images from masks."""
    return "/".join(filter(None, map(without_kind, path.split("/"))))


def plain_stem(stem: str) -> str:
    """Returns the name of a file without a word before its number that only says its kind: image_1, mask_1, left_1."""
    found = _FIRST_WORD.match(stem)
    is_kind = found and (found[1].lower() in VIEWS or is_container(found[1]) or is_annotation(found[1]))
    return stem[found.end() :] if found and is_kind else stem


@functools.lru_cache(maxsize=4096)
def without_kind(name: str) -> str:
    """Removes words for images and masks from a folder's name: returns its split, "" or the whole name."""
    found = _SPLIT_AND_ANNOTATIONS.fullmatch(name.lower())
    split = split_in_name(found[1] if found else name)
    return split or ("" if is_container(name) or is_annotation(name) or ends_in_mask(name) else name)


def is_thing(name: str, among: Sequence[str]) -> bool:
    """Whether the name of a split is that of a class among others: a train among vehicles, or `tr` among codes."""
    found = [word for one in among for word in _words(one)]
    words = {*found, *(word.removesuffix("s") for word in found)}
    is_code = name.lower() == "tr" and all(len(one) <= len("tr") for one in among) and _SHORT.isdisjoint(words)
    return is_code or (name.lower() == "train" and not words.isdisjoint(_VEHICLES))


def is_known(name: str) -> bool:
    """Whether a name means a split, a container or annotations."""
    return split_in_name(name) is not None or is_container(name) or is_annotation(name)


def _spell_splits(name: str) -> str:
    """Returns a name with `train` in place of `trainval`, and `test` in place of `test-dev`."""
    return _TEST_DEV.sub("test", _TRAIN_AND_VALIDATION.sub("train", name))


def _words(name: str) -> list[str]:
    name = _SHORT_SPLIT.sub(lambda short: {"Tr": "Train", "Ts": "Test"}[short[0]], name)
    return [word.lower() for word in _WORDS.findall(name)]
