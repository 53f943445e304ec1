"""Finds what the names of paired images and masks do not share. Pure functions."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from beam_tfrecords.transforms.sources.names import is_image_name

# The last words of a name, such as _mask in car_01_mask, x2 in 7x2, or _gtFine_labelIds in a_000_gtFine_labelIds.
_WORDS = re.compile(
    r"[_. -]*[A-Za-z][A-Za-z_. -]*$|[_. -]+[A-Za-z][A-Za-z0-9]*(?:[_. -][A-Za-z][A-Za-z0-9]*)*$|^[A-Za-z]+\d$"
)
# The last word of a mask's name, and a number after it.
MASK_ENDING = re.compile(
    r"([_-](?:masks?|seg|segmentations?|gt|labels?|annotations?|depth|disp|disparity))(?:[_-]?\d+)?(?=\.[^.]*$)",
    re.IGNORECASE,
)
# Number of the only channel of an image, which nnU-Net writes and its masks lack.
_CHANNEL = "_0000"
# End of the name of an object's mask after that of its image: img_1_0, img_1_mask_2.
NUMBERED_MASK = re.compile(r"[_. -](?:(?:mask|object|obj|instance|inst|seg)[_. -]?)?\d+$", re.IGNORECASE)
# If an image has several masks, as in Cityscapes, prefers the mask of class numbers.
_CLASSES = re.compile(r"label|class", re.IGNORECASE)


def mask_stem(path: str, suffix: str) -> str:
    """Returns the path of an image without its extension, unless the suffix of masks has one: `.png`, `_mask.tif`."""
    return path if is_image_name(suffix) else posixpath.splitext(path)[0]


def mask_end(suffix: str) -> re.Pattern[str]:
    """Returns the pattern of the end of a mask's name: a suffix, with a number if an image has several masks."""
    return re.compile(rf"{re.escape(suffix)}[_. -]?\d*$")


def find_suffixes(images: Iterable[str], masks: Iterable[str], *, are_all: bool = True) -> dict[str, str] | None:
    """Returns the suffix settings that pair masks with at least half of the images; None if no suffixes do.

    Args:
      images: names of some images, without extensions.
      masks: names of some masks, without extensions; they may belong to other images.
      are_all: whether the names are complete; if not, suffixes that all names share also count.
    """
    return next(iter(find_all_suffixes(images, masks, are_all=are_all)), None)


def find_all_suffixes(images: Iterable[str], masks: Iterable[str], *, are_all: bool = True) -> list[dict[str, str]]:
    """Returns the suffix settings of each kind of masks, the likeliest first; see `find_suffixes`."""
    images, masks = sorted(set(images)), sorted(set(masks))
    shared = shared_ending(images) or (_CHANNEL if all(name.endswith(_CHANNEL) for name in images) else "")
    for image_suffix in dict.fromkeys(("", shared)):
        endings = _endings(masks, {name.removesuffix(image_suffix) for name in images})
        if endings:
            ordered = sorted(endings, key=lambda one: (bool(one), not _CLASSES.search(one), -endings[one]))
            are_paired = 2 * endings[ordered[0]] >= len(images) or not are_all
            kinds = [one for one in ordered if 2 * endings[one] >= len(images)] or ordered[:1]
            return [_settings(one, image_suffix) for one in kinds] if are_paired else []
    mask_suffix = "" if are_all else shared_ending(masks)
    return [_settings(mask_suffix, shared)] if mask_suffix else []


def names_classes(endings: Iterable[str]) -> bool:
    """Whether one of the suffixes, such as _labelIds, means masks with the numbers of all classes."""
    return any(map(_CLASSES.search, endings))


def _endings(masks: Iterable[str], bases: set[str]) -> Counter[str]:
    """Counts the suffixes that masks add to the names of images."""
    endings = Counter[str]()
    for name in masks:
        base = next((name[:end] for end in range(len(name), 0, -1) if name[:end] in bases), None)
        if base is not None and not name[len(base) :][:1].isdigit():
            endings[name[len(base) :]] += 1
    return endings


def _settings(mask_suffix: str, image_suffix: str) -> dict[str, str]:
    settings = {"mask_suffix": mask_suffix, "image_suffix": image_suffix}
    return {name: suffix for name, suffix in settings.items() if suffix}


def without_common_ends(names: Sequence[str]) -> list[str]:
    """Returns names without the beginning and the end that all of them share; a single name shares nothing."""
    if len(names) < 2:
        return [*names]
    before = len(posixpath.commonprefix(names))
    after = len(posixpath.commonprefix([name[:before:-1] for name in names]))
    return [name[before : len(name) - after] for name in names]


def shared_ending(names: Sequence[str]) -> str:
    """Returns the words that all names end with; "" if there are none."""
    shortest = min(names, key=len, default="")
    endings = (shortest[start:] for start in range(len(shortest)))
    shared = next((ending for ending in endings if all(name.endswith(ending) for name in names)), "")
    found = _WORDS.search(shared)
    return found[0] if found and len(names) > 1 else ""
