"""Compares images with equal names in several folders: masks have few values, images of one thing look alike."""

from __future__ import annotations

import dataclasses
import enum
import io
import itertools
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL import Image

_MOST_BYTES = 32 << 20
_MOST_PIXELS = 40_000_000
# A mask has at most this many gray values; a photo has more.
_FEW_VALUES = 32
# Sizes tell things apart from this number of images, pixels from one more.
_LEAST_SIZES = 3
_LEAST_PICTURES = 4
# Width and height at which pictures are compared, and the least correlation of two pictures of one thing.
_THUMBNAIL = 16
_LEAST_ALIKE = 0.7
_LEAST_CONTRAST = 4.0
# JPEG does not preserve class numbers, so masks are never read from it.
JPEG = re.compile(r"\.jpe?g$", re.IGNORECASE)
# The last word of a name, as in 1_lesion.png, with the extension.
_END = re.compile(r"([_. -][A-Za-z]+)?(\.[^./]*)?$")
# The word before the number of a name, as in seg00012.png.
_BEGINNING = re.compile(r"[A-Za-z]+[_. -]?(?=\d)")
# Most classes to compare, in a store and on a disk, and most images of each.
_MOST_CLASSES, _MOST_CLASSES_NEAR, _MOST_OF_CLASS = 12, 200, 3


class _Appearance(enum.Enum):
    """What an image may be."""

    PHOTO = "photo"
    MASK = "mask"
    BOTH = "both"


@dataclasses.dataclass(frozen=True)
class _Look:
    """What an image looks like.

    Attributes:
      size: width and height; None if the file is not an image, or is large.
      values: number of gray values; 0 if the file cannot store class numbers.
      picture: gray values of a small copy, of mean 0 and length 1; None for a picture of one color.
    """

    size: tuple[int, int] | None = None
    values: int = 0
    picture: npt.NDArray[np.float64] | None = None


def compare_images(folders: Sequence[Sequence[str]]) -> tuple[list[int], bool]:
    """Compares the images of several folders, which have the same names.

    Args:
      folders: paths of some images of each folder.

    Returns:
      The places of the folders whose images look like masks, none if all or none of them do; and whether the images of
      one name show one thing, by their sizes or by their pixels.
    """
    seen = [[_look(_open(path)) for path in paths] for paths in folders]
    values = [[one.values for one in images] for images in seen]
    # The mask of an image without objects has a single value; pictures of one color are no masks.
    drawn = [number for number, some in enumerate(values) if 0 not in some and 1 < max(some, default=0) <= _FEW_VALUES]
    are_alike = _have_equal_sizes(seen) or all(_show_one_thing(seen[0], images) for images in seen[1:])
    return drawn if len(drawn) < len(folders) else [], are_alike


def find_drawn(classes: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the classes whose first images look like masks, if those of other classes are photos.

    Args:
      classes: class -> paths of its first images.
    """
    are_far = any(storage.has_scheme(path) for paths in classes.values() for path in paths[:1])
    most = _MOST_CLASSES if are_far else _MOST_CLASSES_NEAR
    some = {name: paths[:_MOST_OF_CLASS] for name, paths in [*classes.items()][:most] if paths}
    kinds = {name: {_kind_of(paths[0])} for name, paths in some.items()}
    # Most inputs have no such class, and their other images are not read.
    if {_Appearance.MASK} not in kinds.values():
        return []
    kinds = {name: {*found, *map(_kind_of, some[name][1:])} for name, found in kinds.items()}
    has_photos = any(_Appearance.PHOTO in found for found in kinds.values())
    return [name for name, found in kinds.items() if found == {_Appearance.MASK}] if has_photos else []


def are_masks(paths: Iterable[str]) -> bool:
    """Whether the first of some images all look like masks; stops at a photo."""
    kinds = set[_Appearance]()
    for path in itertools.islice(paths, _MOST_CLASSES):
        kinds.add(_kind_of(path))
        if _Appearance.PHOTO in kinds:
            return False
    return _Appearance.MASK in kinds


def count_frames(path: str) -> int:
    """Returns the number of frames or pages of an image file; 1 for other files."""
    return getattr(_open(path), "n_frames", 1)


def find_drawn_ends(paths: Iterable[str]) -> list[str]:
    """Returns globs for the ends or beginnings of names whose first images look like masks, unlike the others."""
    ends: dict[str, list[str]] = {}
    beginnings: dict[str, list[str]] = {}
    for path in paths:
        end, beginning = _END.search(path), _BEGINNING.match(posixpath.basename(path))
        ends.setdefault(f"*{end[0] if end else ''}", []).append(path)
        beginnings.setdefault(f"{beginning[0] if beginning else ''}*", []).append(path)
    found = find_drawn(ends) if len(ends) > 1 else []
    return found or (find_drawn(beginnings) if len(beginnings) > 1 else [])


def _kind_of(path: str) -> _Appearance:
    """Returns what a file looks like; one of a single color may be both."""
    image = None if JPEG.search(path) else _open(path)
    # An image of several channels is a photo, and need not be decoded.
    if image is None or len(image.getbands()) > 1:
        return _Appearance.PHOTO
    # A photo of a few pixels has few values, too.
    values, most = _look(image).values, min(_FEW_VALUES, image.width * image.height // 4)
    return _Appearance.BOTH if values == 1 else _Appearance.MASK if 0 < values <= most else _Appearance.PHOTO


def _have_equal_sizes(seen: Sequence[Sequence[_Look]]) -> bool:
    """Whether images of one name have one size, and those of other names other sizes."""
    sizes = [[one.size for one in images] for images in seen]
    first = sizes[0] if sizes else []
    return all(one == first for one in sizes) and None not in first and len({*first}) == len(first) >= _LEAST_SIZES


def _show_one_thing(first: Sequence[_Look], second: Sequence[_Look]) -> bool:
    """Whether each picture of two folders is like that of its name in the other one, and less like all others."""
    pictures = [[one.picture for one in images if one.picture is not None] for images in (first, second)]
    if len(first) < _LEAST_PICTURES or any(len(some) < len(first) for some in pictures):
        return False
    # Most requests compare no pictures, and need no NumPy here.
    import numpy as np

    alike = np.stack(pictures[0]) @ np.stack(pictures[1]).T
    own = alike.diagonal()
    others = np.where(np.eye(len(alike), dtype=bool), -1.0, alike)
    return bool(own.min() >= _LEAST_ALIKE and (own > others.max(0)).all() and (own > others.max(1)).all())


def _open(path: str) -> Image.Image | None:
    """Opens an image without decoding it; returns None if the file is not an image, or is large."""
    from PIL import Image, UnidentifiedImageError

    try:
        size = storage.stat(path).size
        return Image.open(io.BytesIO(storage.read_range(path, 0, size))) if size <= _MOST_BYTES else None
    except (FileNotFoundError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None


def _look(image: Image.Image | None) -> _Look:
    import numpy as np
    from PIL import Image

    if image is None:
        return _Look()
    if image.width * image.height > _MOST_PIXELS:
        return _Look(image.size)
    shape, may_be_mask = image.size, image.format != "JPEG"
    try:
        image.draft("L", (2 * _THUMBNAIL, 2 * _THUMBNAIL))
        gray = image.convert("L")
    except (OSError, SyntaxError, ValueError):
        return _Look(shape)
    small = np.asarray(gray.resize((_THUMBNAIL, _THUMBNAIL), Image.Resampling.BOX), np.float64).ravel()
    small -= small.mean()
    has_contrast = small.std() >= _LEAST_CONTRAST
    # In 8 bits, Pillow cuts off numbers above 255.
    values = len(np.unique(np.asarray(image))) if image.mode.startswith("I") else 256 - gray.histogram().count(0)
    return _Look(shape, values if may_be_mask else 0, small / np.linalg.norm(small) if has_contrast else None)
