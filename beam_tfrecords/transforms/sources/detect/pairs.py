"""Finds pairs of images, such as images and masks, by the common parts of their names."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from beam_tfrecords.transforms.sources.detect.interpretation import join
from beam_tfrecords.transforms.sources.detect.mask_names import shared_ending, without_common_ends
from beam_tfrecords.transforms.sources.detect.mask_pairs import JPEG
from beam_tfrecords.transforms.sources.detect.names import names_annotations, split_in_name
from beam_tfrecords.transforms.sources.detect.tree import FolderTree, pair_stem

_MOST_TWINS = 4
# Least share of images with a partner, in folders whose names say that they hold pairs.
_MOST_ALIKE = 0.8
_IMAGE_WORDS = frozenset(
    {"im", "image", "images", "img", "imgs", "picture", "pictures", "view", "views", "cam", "camera"}
)
# Words in the names of folders that hold images of the same things.
_VIEWS = frozenset(
    {
        "left", "right", "center", "centre", "middle", "front", "back", "rear", "top", "bottom", "side", "before",
        "after", "pre", "post", "first", "second", "image", "img", "anchor", "positive", "negative", "query", "lr",
        "hr", "low", "high", "lowres", "highres", "rgb", "ir", "nir", "depth", "thermal", "infrared", "fundus", "oct",
        "visible", "vis", "color", "colour", "gray", "grey", "input", "target", "source", "output", "reference",
        "ref", "noisy", "clean", "blur", "sharp", "hazy", "clear", "rain", "rainy", "photo", "sketch", "sketches",
        "edge",
    }
)  # fmt: skip
# Suffix of single-band images of Sentinel-2, Sentinel-1, Landsat and multispectral cameras.
_BAND = re.compile(
    r"(?:^|[_. -])(B(?:0?[1-9]|1[0-2]|8A)|[VH][VH]|red|green|blue|yellow|nir|red_?edge|swir_?\d*|pan)$", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True)
class Twins:
    """Two sibling folders whose images have the same names, except for a suffix that all names in a folder share.

    Attributes:
      images: path of the folder of images.
      masks: path of the folder of their masks, or of other paired images.
      are_masks: whether the images in `masks` may contain class numbers.
      suffixes: settings for the suffixes.
      are_views: whether the folders are named for views of the same things.
    """

    images: str
    masks: str
    are_masks: bool
    suffixes: dict[str, str]
    are_views: bool = False

    @property
    def folders(self) -> tuple[str, str]:
        """Both folders."""
        return self.images, self.masks


def find_twins(tree: FolderTree) -> list[Twins]:
    """Returns all pairs of folders if they contain all images; otherwise the first pair, if any."""
    folders = (path for path, folder in tree.walk() if folder.images and path)
    parents = {path[: max(at, 0)] for path in folders for at in (path.rfind("/"), path.find("/"), 0)}
    found = [pair for parent in sorted(parents) if (pair := _twins_in(tree, parent))]
    count = sum(tree.images(path) for one in found for path in one.folders)
    return found if len(found) <= _MOST_TWINS and count == tree.total() else found[:1]


def are_drawn(tree: FolderTree, images: str, others: str) -> bool:
    """Whether each image has a counterpart in another folder, other than photos with the same consecutive numbers."""
    pair = _pair(tree, images, others)
    return pair is not None and (any(pair) or not _are_numbered(_stems(tree.names([images])), tree.images(images)))


def find_bands(tree: FolderTree) -> tuple[str, list[str]] | None:
    """Returns the first folder in which all images are single bands, and some of the bands; None if there is none."""
    for path, folder in tree.walk():
        found = [_BAND.search(name.rpartition(".")[0]) for _, name in folder.names]
        bands = sorted({one[1] for one in found if one})
        if len(bands) > 1 and all(found):
            return path, bands
    return None


def find_pair_ending(tree: FolderTree) -> str | None:
    """Returns the suffix of the second image of each pair if a folder has pairs of images with and without a suffix."""
    for _, folder in tree.walk():
        stems = _stems(name for _, name in folder.names)
        endings = Counter(stem[len(base) :] for stem in stems if (base := pair_stem(stem)) in stems and base != stem)
        for ending, count in endings.most_common(1):
            alone = sum(pair_stem(stem) == stem for stem in stems)
            if count >= 3 and count >= 0.8 * alone and alone >= 0.8 * count and count + alone >= 0.9 * len(stems):
                return ending
    return None


def _twins_in(tree: FolderTree, parent: str) -> Twins | None:
    """Returns the first two folders in a folder if the images of all folders in it form pairs, else None."""
    names = tree.below(parent)
    paths = [join(parent, name) for name in names]
    if len(paths) < 2 or len({*map(split_in_name, names)}) > 1:
        return None
    first, second, *others = paths
    are_views = _are_views(names)
    pair = None if any(map(tree.below, paths)) else _pair(tree, first, second)
    if pair is None or any(_pair(tree, first, other) is None for other in others):
        are_pairs = are_views and _pair_below(tree, paths)
        return Twins(first, second, are_masks=False, suffixes={}, are_views=True) if are_pairs else None
    # The folders of pix2pix; letters of an alphabet are more.
    are_views = are_views or (names == ["A", "B"] and not any(pair) and tree.images(first) > 1)
    is_reversed = _is_first_the_mask(tree, first, second, pair)
    if is_reversed is None and not are_views:  # Photos of two classes may have the same numbers.
        return None
    images, masks = (second, first) if is_reversed else (first, second)
    image_suffix, mask_suffix = reversed(pair) if is_reversed else pair
    suffixes = {"mask_suffix": mask_suffix, "image_suffix": image_suffix}
    are_masks = not any(map(JPEG.search, tree.names([masks])))
    are_masks = are_masks and (any(pair) or all(map(JPEG.search, tree.names([images]))))
    suffixes = {name: suffix for name, suffix in suffixes.items() if suffix}
    return Twins(images, masks, are_masks, suffixes, are_views)


def _are_views(names: Iterable[str]) -> bool:
    """Whether folders may hold images of the same things, by words such as `left` in `image_left` and `left_imgs`."""
    words = (re.findall(r"[a-z]+", name.lower()) for name in names)
    kinds = [[word for word in some if len(word) > 1 and word not in _IMAGE_WORDS] or some[:1] for some in words]
    return all(some and all(_VIEWS & {word, word.removesuffix("s")} for word in some) for some in kinds)


def _pair_below(tree: FolderTree, paths: Sequence[str]) -> bool:
    """Whether most images have the same path below each folder, but for the beginning and end of a folder's names."""
    for strip in (False, True):
        below = [set(_paths_below(tree, path, strip=strip)) for path in paths]
        if len(set.intersection(*below)) >= _MOST_ALIKE * max(map(len, below)) > 0:
            return True
    return False


def _paths_below(tree: FolderTree, path: str, *, strip: bool) -> Iterator[str]:
    """Yields the paths of the images below a folder, without extensions and without what all names share."""
    folders = {
        at[len(path) :]: sorted(_stems(tree.names([at]))) for at, _ in tree.walk() if f"{at}/".startswith(f"{path}/")
    }
    named = [(folder, stem) for folder, some in folders.items() for stem in some]
    stems = [stem for _, stem in named]
    for (folder, _), stem in zip(named, without_common_ends(stems) if strip else stems, strict=True):
        yield f"{folder}/{stem}"


def _pair(tree: FolderTree, first: str, second: str) -> tuple[str, str] | None:
    """Returns the suffixes of two folders if their names are equal without these, else None."""
    stems, others = (_stems(tree.names([path])) for path in (first, second))
    endings = shared_ending(sorted(stems)), shared_ending(sorted(others))
    if endings[0] == endings[1]:
        endings = "", ""
    bases, other_bases = (
        {stem.removesuffix(ending) for stem in some} for some, ending in zip((stems, others), endings, strict=True)
    )
    is_even = 0.9 < tree.images(first) / tree.images(second) < 1.1
    return endings if is_even and len(bases & other_bases) >= 0.9 * len(bases | other_bases) else None


def _is_first_the_mask(tree: FolderTree, first: str, second: str, endings: tuple[str, str]) -> bool | None:
    """Whether the first of two paired folders has the masks; None if both may be photos of two classes."""
    says = [names_annotations(path.rpartition("/")[2]) for path in (first, second)]
    says = [one or names_annotations(ending) for one, ending in zip(says, endings, strict=True)]
    if says[0] != says[1]:
        return says[0]
    folders = [path.rpartition("/")[2].lower() for path in (first, second)]
    if any(ending and ending.strip("_. -").lower() in folders for ending in endings):
        return None  # cat/1_cat.jpg, dog/1_dog.jpg
    if any(endings) and not all(endings):
        return bool(endings[0])
    if _may_be_masks(tree, second, first):
        return True
    stems = {stem.removesuffix(endings[0]) for stem in _stems(tree.names([first]))}
    return None if not _may_be_masks(tree, first, second) and _are_numbered(stems, tree.images(first)) else False


def _may_be_masks(tree: FolderTree, images: str, masks: str) -> bool:
    """Whether all images in a folder are JPEG, and no image in the other is, so that those can store class numbers."""
    return all(map(JPEG.search, tree.names([images]))) and not any(map(JPEG.search, tree.names([masks])))


def _are_numbered(stems: Iterable[str], count: int) -> bool:
    """Whether names come from a counter, so that equal names do not indicate pairs."""
    numbers = [re.findall(r"\d+", stem) for stem in stems]
    words = {re.sub(r"\d+", "", stem) for stem in stems}
    return len(words) == 1 and all(len(some) > 1 or (some and int(some[0]) <= 2 * count + 1) for some in numbers)


def _stems(names: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[0] for name in names}
