"""What the names of masks and of their images have at their ends. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

# The last words of a name: _mask in car_01_mask, _gtFine_labelIds in a_000_gtFine_labelIds.
_WORDS = re.compile(r"[_. -]*[A-Za-z][A-Za-z_. -]*$|[_. -]+[A-Za-z][A-Za-z0-9]*(?:[_. -][A-Za-z][A-Za-z0-9]*)*$")
# Of several masks of an image, as in Cityscapes, the one with the numbers of classes.
_CLASSES = re.compile(r"label|class", re.IGNORECASE)


def find_suffixes(images: Iterable[str], masks: Iterable[str], *, are_all: bool = True) -> dict[str, str] | None:
    """The settings by which masks belong to images; None if no suffixes do it.

    Args:
      images: names of some images, without extensions.
      masks: likewise; some of the images may have other masks.
      are_all: whether there are no others; else suffixes that all of them share count too.
    """
    images, masks = sorted(set(images)), sorted(set(masks))
    shared = shared_ending(images)
    for image_suffix in dict.fromkeys(("", shared)):
        endings = _endings(masks, {name.removesuffix(image_suffix) for name in images})
        if endings:
            best = max(endings, key=lambda one: (not one, bool(_CLASSES.search(one)), endings[one]))
            return _settings(best, image_suffix)
    mask_suffix = "" if are_all else shared_ending(masks)
    return _settings(mask_suffix, shared) if mask_suffix else None


def _endings(masks: Iterable[str], bases: set[str]) -> Counter[str]:
    """What the names of masks have behind those of images, and how often."""
    endings = Counter[str]()
    for name in masks:
        base = next((name[:end] for end in range(len(name), 0, -1) if name[:end] in bases), None)
        if base is not None and not name[len(base) :][:1].isdigit():
            endings[name[len(base) :]] += 1
    return endings


def _settings(mask_suffix: str, image_suffix: str) -> dict[str, str]:
    settings = {"mask_suffix": mask_suffix, "image_suffix": image_suffix}
    return {name: suffix for name, suffix in settings.items() if suffix}


def shared_ending(names: Sequence[str]) -> str:
    """The words at the end of all names; "" if they share none."""
    shortest = min(names, key=len, default="")
    endings = (shortest[start:] for start in range(len(shortest)))
    shared = next((ending for ending in endings if all(name.endswith(ending) for name in names)), "")
    found = _WORDS.search(shared)
    return found[0] if found and len(names) > 1 else ""
