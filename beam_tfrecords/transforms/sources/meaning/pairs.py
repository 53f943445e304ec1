"""Finds pairs of images, such as images and masks, by the common parts of their names."""

from __future__ import annotations

import dataclasses
import itertools
import math
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.detect.interpretation import join
from beam_tfrecords.transforms.sources.detect.mask_names import shared_ending, without_common_ends
from beam_tfrecords.transforms.sources.detect.names import (
    VIEWS,
    is_container,
    is_mask_folder,
    match_names,
    names_annotations,
    split_in_name,
)
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.meaning.pixels_alike import JPEG, compare_images

# Number of groups whose folders one request can name.
MOST_TWINS = 24
# With more folders of one parent, images of equal names are those of classes with as many images each.
_MOST_FAMILIES = 6
# Number of folders in a pair, and most folders to sort into pairs.
_PAIR, _MOST_PAIRED = 2, 24
# With fewer things, images of which end in the same words, the words may be names.
_LEAST_THINGS = 3
# Where a word starts: of 1-a_0_m, before -a and _m; of 01L_1stHO, before _1stHO.
_WORD_START = re.compile(r"[_. -](?=\d*[A-Za-z])")
# With a number behind the word, after a number or a hash: 12_t1, 3f8a0c_img0.
_LAST_WORD = re.compile(r"(?:[_. -]|(?<=[0-9]))[A-Za-z]+$|(?:(?<=[0-9])|(?<=[0-9a-f]{6}))[_. -][A-Za-z]+\d[a-z]?$")
_FIRST_WORD = re.compile(r"^[A-Za-z]+(?:[_. -](?:[A-Za-z][_. -])?|(?=[0-9]))")
# Most kinds of counters in one folder, such as IMG_1 and DSC_1.
_MOST_COUNTERS = 3
# Number of images of each folder to look at.
_MOST_COMPARED = 5
# With fewer images of one name, those of classes are as likely to have equal names.
_LEAST_EQUAL = 4
# Share of the images of two folders that have the same names, in pairs.
_MOST_EQUAL = 0.9
# The same for names that do not come from a counter.
_LEAST_EQUAL_NAMES = 0.5
# Least share of images with a partner, of the folder with the fewest, in folders whose names say that they hold pairs.
_MOST_ALIKE = 0.8
_LEAST_PAIRED = 0.25
_IMAGE_WORDS = frozenset(
    {"im", "image", "images", "img", "imgs", "picture", "pictures", "view", "views", "cam", "camera"}
)
# Images that a triplet has beside its anchor; alone, they are classes.
_OF_ANCHOR = frozenset({"positive", "negative"})
# Suffix of single-band images of Sentinel-2, Sentinel-1, Landsat and multispectral cameras.
_BAND = re.compile(
    r"(?:^|[_. -])(B(?:0?[1-9]|1[0-2]|8A)|[VH][VH]|red|green|blue|yellow|nir|red_?edge|swir_?\d*|pan)$", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True)
class Twins:
    """Sibling folders whose images have the same names, except for a suffix that all names in a folder share.

    Attributes:
      images: path of the folder of images.
      masks: path of the folder of their masks, or of other paired images.
      are_masks: whether the images in `masks` may contain class numbers.
      suffixes: settings for the suffixes.
      are_views: whether the folders are named for views of the same things, or their images show it.
      others: paths of further folders of images with these names.
      may_be_classes: whether only the names say so, which are those of a counter.
    """

    images: str
    masks: str
    are_masks: bool
    suffixes: dict[str, str]
    are_views: bool = False
    others: Sequence[str] = ()
    may_be_classes: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        """All folders; that of the masks comes last."""
        return self.images, *self.others, self.masks


def find_twins(tree: FolderTree, root: str) -> list[Twins]:
    """Returns all groups of paired folders if they contain all images; otherwise the first group, if any.

    Args:
      tree: the folders.
      root: path of their root folder; "" if files cannot be read, so that names decide.
    """
    folders = (path for path, folder in tree.walk() if folder.images and path)
    parents = {path[: max(at, 0)] for path in folders for at in (path.rfind("/"), path.find("/"), 0)}
    found = {parent: twins for parent in sorted(parents) if (twins := _twins_in(tree, root, parent))}
    if not found and (below := _twins_below(tree, root)):
        return below[:MOST_TWINS]
    every = [one for twins in found.values() for one in twins]
    are_all = sum(map(tree.total, found)) == tree.total() and len({len(one.folders) for one in every}) == 1
    return every if are_all else every[:1]


def are_drawn(tree: FolderTree, images: str, others: str) -> bool:
    """Whether each image has a counterpart in another folder, other than photos with the same consecutive numbers."""
    pair = _pair(tree, images, others)
    return pair is not None and (any(pair) or not _are_numbered(_stems(tree.names([images])), tree.images(images)))


def find_bands(tree: FolderTree) -> tuple[str, list[str]] | None:
    """Returns the first folder in which all images are single bands, and some of the bands; None if there is none."""
    for path, folder in tree.walk():
        found = [_BAND.search(posixpath.splitext(name)[0]) for _, name in folder.names]
        bands = sorted({one[1] for one in found if one})
        if len(bands) > 1 and all(found):
            return path, bands
    return None


def find_copies(tree: FolderTree) -> list[str]:
    """Returns the extensions of images if nearly each image has others that differ from it only in the extension."""
    found: dict[str, list[str]] = {}
    for path, folder in tree.walk():
        for _, name in folder.names:
            stem, extension = posixpath.splitext(name)
            found.setdefault(join(path, stem), []).append(extension)
    several = [extensions for extensions in found.values() if len({*extensions}) > 1]
    if len(several) < max(_LEAST_THINGS, _MOST_ALIKE * len(found)):
        return []
    return sorted({extension for extensions in several for extension in extensions})


def find_pair_endings(tree: FolderTree) -> list[str]:
    """Returns the suffixes of the others of each image if a folder has images with and without these; [] otherwise."""
    for _, folder in tree.walk():
        stems = _stems(name for _, name in folder.names)
        starts = {stem: [stem[: word.start()] for word in _WORD_START.finditer(stem)][::-1] for stem in stems}
        bases = {stem: next((one for one in several if one in stems), stem) for stem, several in starts.items()}
        counts = Counter(stem[len(base) :] for stem, base in bases.items() if base != stem)
        alone = sum(base == stem for stem, base in bases.items())
        least = max(_LEAST_THINGS, 0.8 * alone)
        endings = [one for one, count in counts.items() if least <= count <= 1.25 * alone]
        if endings and alone + sum(map(counts.__getitem__, endings)) >= 0.9 * len(stems):
            return sorted(endings)
    return []


def find_families(tree: FolderTree) -> list[str]:
    """Returns globs for the images of one kind if each thing has an image of each kind, such as *_left.*; else [].

    The kind is the last word of a name, or its first word if that is known. Images without a word have the glob "*".
    """
    firsts = _find_kinds(tree, _FIRST_WORD, "{}*")
    words = [one.strip("_. -*") for one in firsts]
    # IMG_1 and DSC_1 are those of two cameras.
    said = [one for one in words if one.lower() not in _IMAGE_WORDS]
    are_known = any(names_annotations(one) or _are_views([one]) for one in said)
    return _find_kinds(tree, _LAST_WORD, "*{}.*") or (firsts if are_known else [])


def _find_kinds(tree: FolderTree, pattern: re.Pattern[str], written: str) -> list[str]:
    kinds: dict[tuple[str, str], set[str]] = {}
    for path, folder in tree.walk():
        for stem in _stems(name for _, name in folder.names):
            word = pattern.search(stem)
            kinds.setdefault((path, pattern.sub("", stem)), set()).add(word[0] if word else "")
    first = next(iter(kinds.values()), set())
    # An image without such a word and one with it are a pair.
    is_one = len(kinds) >= _LEAST_THINGS and 1 + ("" in first) < len(first) <= _MOST_FAMILIES
    are_all = is_one and all(some == first for some in kinds.values())
    return [written.format(one) if one else "*" for one in sorted(first)] if are_all else []


def find_parts(tree: FolderTree) -> list[str]:
    """Returns the names of the images in each folder if each holds one sample, such as image and mask; else []."""
    stems = [_stems(name for _, name in folder.names) for _, folder in tree.walk() if folder.images]
    first = stems[0] if len(stems) >= _LEAST_THINGS else set[str]()
    is_few = 0 < len(first) <= min(_MOST_FAMILIES, len(stems))
    are_counted = any(re.search(r"\d", one) for one in first)
    are_known = any(names_annotations(one) or (not are_counted and _are_views([one])) for one in first)
    return sorted(first) if is_few and are_known and all(one == first for one in stems) else []


def _twins_below(tree: FolderTree, root: str) -> list[Twins]:
    """Returns the pairs of the folders with images below two folders, if each has one; [] otherwise.

    As in `images_of_all/train_images` and `drawings_of_all/train_drawn`. Pixels decide, because no names do.
    """
    base = ""
    while len(tree.below(base)) == 1 and not tree.images(base):
        base = join(base, tree.below(base)[0])
    names = tree.below(base)
    is_flat = not all(tree.below(join(base, name)) for name in names)
    if len(names) != 2 or tree.images(base) or is_flat or len({*map(split_in_name, names)}) > 1:
        return []
    starts = [f"{join(base, name)}/" for name in names]
    first, second = ([path for path, one in tree.walk() if one.images and f"{path}/".startswith(at)] for at in starts)
    partners = [[other for other in second if _pair(tree, path, other)] for path in first]
    if len(first) != len(second) or {one for some in partners for one in some[:1]} != {*second}:
        return []
    found = [_make_twins(tree, root, [path, other]) for path, (other, *_) in zip(first, partners, strict=True)]
    twins = [one for one in found if one and one.are_masks and not one.may_be_classes]
    return twins if len(twins) == len(first) else []


def _twins_in(tree: FolderTree, root: str, parent: str) -> list[Twins]:
    """Returns the folders in a folder whose images form pairs: all, or those of each split; [] without any."""
    by_split: dict[str | None, list[str]] = {}
    for name in tree.below(parent):
        by_split.setdefault(split_in_name(name), []).append(join(parent, name))
    # A folder of another split, such as test_input, has no partner.
    by_split = {split: some for split, some in by_split.items() if len(some) >= _PAIR}
    paths = [path for some in by_split.values() for path in some]
    if not paths:
        return []
    if not any(map(tree.below, paths)):
        twins = [_make_twins(tree, root, some) for some in by_split.values()]
        if len(by_split) == 1 and _PAIR < len(paths) <= _MOST_PAIRED:
            groups = _pair_masks(paths) if all(twins) else _group_alike(tree, paths)
            twins = [_make_twins(tree, root, some) for some in groups] or twins
        if twins and all(twins):
            return [one for one in twins if one]
    inner = {tuple(tree.below(path)) for path in paths}
    if (
        len(by_split) == len(inner) == 1
        and not any(map(tree.images, paths))
        and (below := _twins_inside(tree, root, paths))
    ):
        return below
    views = [name for name in (path.rpartition("/")[2] for path in paths) if not names_annotations(name)]
    are_views = len(by_split) == 1 and bool(views) and _are_views(views)
    if are_views and (_pair_below(tree, paths) or _begin_alike(tree, paths)):
        return [Twins(paths[0], paths[1], are_masks=False, suffixes={}, are_views=True, others=paths[2:])]
    return []


def _twins_inside(tree: FolderTree, root: str, paths: Sequence[str]) -> list[Twins]:
    """Returns folders that each hold the same splits or containers, whose images form pairs; [] for others."""
    names = tree.below(paths[0])
    are_known = all(split_in_name(name) or is_container(name) for name in names)
    if (
        not are_known
        or tree.total(paths[0]) < _LEAST_EQUAL
        or any(tree.below(join(path, name)) for path in paths for name in names)
    ):
        return []
    found = [_make_twins(tree, root, [join(path, name) for path in paths], paths) for name in names]
    twins = [one for one in found if one]
    if len(twins) < len(names):
        return []
    images, *others, masks = (path.rpartition("/")[0] for path in twins[0].folders)
    may_be_classes = all(one.may_be_classes for one in twins)
    return [dataclasses.replace(twins[0], images=images, masks=masks, others=others, may_be_classes=may_be_classes)]


def _pair_masks(paths: Sequence[str]) -> list[list[str]]:
    """Groups folders of images and as many of masks by their words: cats, dogs, cats_masks and dogs_masks; else []."""
    masks = [path for path in paths if names_annotations(path.rpartition("/")[2])]
    images = [path for path in paths if path not in masks]
    if len(masks) != len(images):
        return []
    places = match_names(*([path.rpartition("/")[2] for path in some] for some in (images, masks)))
    return [[image, masks[place]] for image, place in zip(images, places, strict=False)]


def _group_alike(tree: FolderTree, paths: Sequence[str]) -> list[list[str]]:
    """Groups folders whose images have the same names: pairs if each has one partner, or else one group that is clear.

    If a counter gives the names, only folders that are named for views are clear, beside others.
    """
    groups = list[list[str]]()
    for path in paths:
        group = next((one for one in groups if _pair(tree, one[0], path) is not None), None)
        if group is None:
            groups.append([path])
        else:
            group.append(path)
    if all(len(group) == _PAIR for group in groups):
        return groups
    views = {path for path in paths if _are_views([path.rpartition("/")[2]])}
    several = (group for group in groups if len(group) > 1)
    clear = (
        group
        for group in several
        if (views.issuperset(group) and len(views) < len(paths))
        or _are_clear(_share(tree, *group[:2])[1], tree.images(group[0]))
    )
    return [*itertools.islice(clear, 1)]


def _make_twins(tree: FolderTree, root: str, paths: Sequence[str], outer: Sequence[str] = ()) -> Twins | None:
    """Returns folders if the images of each form pairs with those of the first one, else None.

    Args:
      tree: the folders.
      root: as in `find_twins`.
      paths: paths of the folders.
      outer: paths of the folders whose names say what these are, if they lie in these.
    """
    names = [path.rpartition("/")[2] for path in outer or paths]
    are_named = _are_views(names)
    suffixes_of = list[tuple[str, str]]()
    for other in paths[1:]:
        pair = _pair(tree, paths[0], other) or _pair_stripped(tree, root, paths[0], other, are_views=are_named)
        if pair is None:
            return None
        suffixes_of.append(pair)
    images, last = paths[0], paths[-1]
    is_reversed = _is_first_the_mask(tree, images, last, suffixes_of[-1])
    drawn, are_alike = list[int](), False
    if is_reversed is None and len(paths) <= _MOST_FAMILIES:
        drawn, are_alike = compare_images(_some_images(tree, root, paths))
    masks = [path for path in paths if len(paths) > 2 and names_annotations(path.rpartition("/")[2])]
    if len(masks) in (0, len(paths)):
        masks = []
    # Other annotations may have any name.
    every = [*masks, *(path for path in map(paths.__getitem__, drawn) if path not in masks)]
    masks = every if len(every) < len(paths) else masks
    others = [path for path in paths if path not in masks]
    if masks:
        images, *others = others
        # As im1, im2, label1, label2.
        places = match_names([images.rpartition("/")[2]], [path.rpartition("/")[2] for path in masks])
        last = masks[places[0] if places else 0]
        is_reversed = False
    # The folders of pix2pix; letters of an alphabet are more.
    are_views = are_named or (names == ["A", "B"] and suffixes_of[0] == ("", "") and tree.images(images) > 1)
    are_views = are_views or are_alike
    # Photos of two classes may have the same numbers.
    may_be_classes = is_reversed is None and not are_views
    if may_be_classes and (len(paths) > _MOST_FAMILIES or tree.images(images) < _LEAST_EQUAL):
        return None
    if is_reversed:
        images, last = last, images
    suffixes = dict(zip(("image_suffix", "mask_suffix"), _pair(tree, images, last) or ("", ""), strict=True))
    are_masks = not any(map(JPEG.search, tree.names([last])))
    is_said = bool(masks) or is_mask_folder(last.rpartition("/")[2]) or (any(suffixes.values()) and not are_views)
    are_masks = are_masks and (is_said or all(map(JPEG.search, tree.names([images]))))
    suffixes = {name: suffixes[name] for name in ("mask_suffix", "image_suffix") if suffixes[name]}
    others = [path for path in others if path not in (images, last)] if len(masks) < 2 else []
    return Twins(images, last, are_masks, suffixes, are_views, others, may_be_classes)


def _some_images(tree: FolderTree, root: str, paths: Sequence[str]) -> list[list[str]]:
    """Returns paths of a few images of each folder, whose names are those of the images of the other folders."""
    by_stem = [_by_base(tree, path) for path in paths]
    shared = sorted(set.intersection(*map(set, by_stem)))[:_MOST_COMPARED] if root else []
    return [
        [storage.join(root, path, stems[base]) for base in shared] for path, stems in zip(paths, by_stem, strict=True)
    ]


def _by_base(tree: FolderTree, path: str) -> dict[str, str]:
    """Returns the part of a name before the suffix of a folder -> name of the image."""
    names = tree.names([path])
    ending = shared_ending(sorted(_stems(names)))
    return {posixpath.splitext(name)[0].removesuffix(ending): name for name in names}


def _are_views(names: Iterable[str]) -> bool:
    """Whether folders may hold images of the same things, by words such as `left` in `image_left` and `left_imgs`."""
    words = (re.findall(r"[a-z]+", name.lower()) for name in names)
    kinds = [[word for word in some if len(word) > 1 and word not in _IMAGE_WORDS] or some[:1] for some in words]
    known = VIEWS | (_OF_ANCHOR if any("anchor" in some for some in kinds) else set())
    return all(any(known & {word, word.removesuffix("s"), word.removeprefix("no")} for word in some) for some in kinds)


def _pair_below(tree: FolderTree, paths: Sequence[str]) -> bool:
    """Whether most images of the smallest folder are in all, ignoring how all names of a folder begin and end."""
    inner = {at[len(path) :] for path in paths for at, _ in tree.walk(path)}
    names = {one: tree.names_alike([path + one for path in paths]) for one in sorted(inner)}
    for strip in (False, True):
        every = [{one: some[place] for one, some in names.items()} for place in range(len(paths))]
        below = [set(_paths_below(some, strip=strip)) for some in every]
        least, most = min(map(len, below)), max(map(len, below))
        if len(set.intersection(*below)) >= _MOST_ALIKE * least > 0 and least >= _LEAST_PAIRED * most:
            return True
    return False


def _begin_alike(tree: FolderTree, paths: Sequence[str]) -> bool:
    """Whether the names in each folder are those in the smallest with a further number or word: 1 and 1_1, 1_2."""
    by_size = sorted(paths, key=tree.images)
    first, *others = ([re.sub(r"\d+", "0", stem) for stem in _stems(tree.names([path]))] for path in by_size)
    starts = tuple(f"{one}{mark}" for one in {*first} if "0" in one for mark in "_.- ")
    return all(one.startswith(starts) for some in others for one in some) if starts else False


def _paths_below(names: Mapping[str, Sequence[str]], *, strip: bool) -> Iterator[str]:
    """Yields folder and name of images, without extensions and without what all names share."""
    named = [(folder, stem) for folder, some in names.items() for stem in sorted(_stems(some))]
    stems = [stem for _, stem in named]
    for (folder, _), stem in zip(named, without_common_ends(stems) if strip else stems, strict=True):
        yield f"{folder}/{stem}"


def _pair(tree: FolderTree, first: str, second: str) -> tuple[str, str] | None:
    """Returns the suffixes of two folders if their names are equal without these, else None."""
    endings, shared, count = _share(tree, first, second)
    # Several names that no counter gives are seldom equal.
    least = _LEAST_EQUAL_NAMES if _are_clear(shared, tree.images(first)) else _MOST_EQUAL
    is_even = least <= tree.images(first) / tree.images(second) <= 1 / least
    return endings if is_even and len(shared) >= least * count else None


def _share(tree: FolderTree, first: str, second: str) -> tuple[tuple[str, str], list[str], int]:
    """Compares the names in two folders.

    Returns:
      What all names in each folder end with; the names that both have without it, and without the names of the folders
      in them, without what all of these begin and end with; the number of names that one of them has.
    """
    stems, others = map(_stems, tree.names_alike([first, second]))
    endings = shared_ending(sorted(stems)), shared_ending(sorted(others))
    if endings[0] == endings[1]:
        endings = "", ""
    bases, other_bases = (
        {stem.removesuffix(ending) for stem in some} for some, ending in zip((stems, others), endings, strict=True)
    )
    names = [path.rpartition("/")[2] for path in (first, second)]
    if not any(endings) and all(
        name in stem for name, some in zip(names, (bases, other_bases), strict=True) for stem in some
    ):
        bases, other_bases = (
            {stem.replace(name, "") for stem in some} for name, some in zip(names, (bases, other_bases), strict=True)
        )
    return endings, without_common_ends(sorted(bases & other_bases)), len(bases | other_bases)


def _pair_stripped(tree: FolderTree, root: str, first: str, second: str, *, are_views: bool) -> tuple[str, str] | None:
    """Returns no suffixes if two folders have the same names after and before words of their own, else None.

    Folders that are not named for views may have the same counters by chance.
    """
    (*_, rests), (before, after, others) = (_strip(tree.names([path])) for path in (first, second))
    is_even = 0.9 < tree.images(first) / tree.images(second) < 1.1
    if not (is_even and rests and others) or (not are_views and _are_numbered(rests, tree.images(first))):
        return None
    names = {*tree.names([second])}
    ends = {after + posixpath.splitext(name)[1] for name in names}
    is_whole, missing = len(names) == tree.images(second), 0
    for rest in rests:
        partners = {f"{before}{rest}{end}" for end in ends}
        # Checking a file in a store is a request.
        is_there = bool(partners & names) or (not is_whole and root and _is_any_file(root, second, partners))
        missing += not is_there
        if missing > (1 - _MOST_EQUAL) * len(rests):
            return None
    return "", ""


def _is_any_file(root: str, folder: str, names: Iterable[str]) -> bool:
    return any(storage.is_file(storage.join(root, folder, name)) for name in names)


def _strip(names: Sequence[str]) -> tuple[str, str, list[str]]:
    """Returns what names begin and end with, up to their numbers, and the rest of each; no rests of a single one."""
    stems = sorted(_stems(names))
    before = re.sub(r"\d+$", "", posixpath.commonprefix(stems))
    after = re.sub(r"\d+$", "", posixpath.commonprefix([stem[::-1] for stem in stems]))[::-1]
    rests = [stem[len(before) : len(stem) - len(after)] for stem in stems]
    return before, after, rests if len(stems) > 1 and all(rests) else []


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
    stems = without_common_ends(sorted(_stems(tree.names([first]))))
    return None if not _may_be_masks(tree, first, second) and _are_numbered(stems, tree.images(first)) else False


def _may_be_masks(tree: FolderTree, images: str, masks: str) -> bool:
    """Whether all images in a folder are JPEG, and no image in the other is, so that those can store class numbers."""
    return all(map(JPEG.search, tree.names([images]))) and not any(map(JPEG.search, tree.names([masks])))


def _are_numbered(stems: Iterable[str], count: int) -> bool:
    """Whether names come from a counter, so that equal names do not indicate pairs."""
    words: dict[str, list[list[int]]] = {}
    for stem in stems:
        words.setdefault(re.sub(r"\d+", "", stem), []).append([int(number) for number in re.findall(r"\d+", stem)])
    # Those of a further split go on where those of the first one end.
    starts = {word: min((one[0] for one in numbers if one), default=0) for word, numbers in words.items()}
    # Of films, each tenth frame may be kept.
    steps = {word: math.gcd(*(one[0] - starts[word] for one in words[word] if one)) or 1 for word in words}
    return 0 < len(words) <= _MOST_COUNTERS and all(
        len(one) > 1 or (one and one[0] - starts[word] <= 2 * count * steps[word])
        for word, numbers in words.items()
        for one in numbers
    )


def _are_clear(shared: Sequence[str], count: int) -> bool:
    """Whether equal names indicate pairs: several without numbers, or with numbers of no counter."""
    numbers = [name for name in shared if any(map(str.isdecimal, name))]
    are_others = len(numbers) >= _LEAST_EQUAL and not _are_numbered(numbers, count)
    return are_others or len(shared) - len(numbers) >= _LEAST_EQUAL


def _stems(names: Iterable[str]) -> set[str]:
    return {posixpath.splitext(name)[0] for name in names}
