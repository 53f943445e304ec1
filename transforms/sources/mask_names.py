"""What the names of masks and of their images have at their ends. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# The last words of a name: _mask in car_01_mask, _gtFine_labelIds in a_000_gtFine_labelIds.
_WORDS = re.compile(r"[_. -]*[A-Za-z][A-Za-z_. -]*$|[_. -]+[A-Za-z][A-Za-z0-9]*(?:[_. -][A-Za-z][A-Za-z0-9]*)*$")


def find_suffixes(images: Iterable[str], masks: Iterable[str]) -> dict[str, str] | None:
    """The settings by which masks belong to images; None if no suffixes do it.

    Args:
      images: names of some images, without extensions.
      masks: likewise; some of the images may have other masks.
    """
    images, masks = sorted(set(images)), sorted(set(masks))
    for image_suffix in ("", _shared_ending(images)):
        for mask_suffix in ("", _shared_ending(masks)):
            bases = {name.removesuffix(image_suffix) for name in images}
            if bases & {name.removesuffix(mask_suffix) for name in masks}:
                settings = {"mask_suffix": mask_suffix, "image_suffix": image_suffix}
                return {name: suffix for name, suffix in settings.items() if suffix}
    return None


def _shared_ending(names: Sequence[str]) -> str:
    """The words at the end of all names; "" if they share none."""
    shortest = min(names, key=len, default="")
    endings = (shortest[start:] for start in range(len(shortest)))
    shared = next((ending for ending in endings if all(name.endswith(ending) for name in names)), "")
    found = _WORDS.search(shared)
    return found[0] if found and len(names) > 1 else ""
