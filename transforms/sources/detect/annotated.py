"""Images that annotate other images: masks, depth maps and the like, in folders of their own or under a suffix."""

from __future__ import annotations

import glob
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Suggestion
from beam_tfrecords.transforms.sources.detect.interpretation import Request, UnclearError, join, show_names
from beam_tfrecords.transforms.sources.detect.mask_pairs import JPEG, find_masks, find_suffixed_masks
from beam_tfrecords.transforms.sources.detect.names import is_annotation, is_container, split_in_name
from beam_tfrecords.transforms.sources.detect.tree import FolderTree, pair_stem
from beam_tfrecords.transforms.sources.source_spec import MASK_SETTINGS

_MOST_NAMES = 10
_MOST_GLOBS = 8
_MOST_PATHS = 3
# How the names of masks end that lie beside their photos: 1.png, 1_mask.png, 1_mask_2.png.
_MASK_ENDING = re.compile(r"([_-](?:mask|seg|gt|label|annotation))(?:[_-]?\d+)?(?=\.[^.]*$)", re.IGNORECASE)


def refuse_annotations(tree: FolderTree, request: Request, base: str) -> list[str]:
    """Refuses images that annotate other images, unless the request says which files are wanted.

    Args:
      base: path of the folder that the others are in.

    Returns:
      Notes on those that a pattern takes for samples.

    Raises:
      UnclearError: there are some.
    """
    wanted = {name for one in request.spec.include for name in one.split("/")} | request.named
    found = [path for path in _annotation_folders(tree) if storage.basename(path) not in wanted]
    if found:
        count = sum(map(tree.total, found))
        what = f"the {count:,} images in {show_names(found)} look like masks or annotations"
        if request.spec.label_pattern is not None:
            globs = [f"`exclude={one}`" for one in globs_of(found[:_MOST_NAMES], request, None)]
            return [f"{what}; to leave them out, say {' '.join(globs)}"]
        masks = None if request.root is None else find_masks(tree, found, request.root)
        others = tree.select(lambda path: not path.startswith(tuple(f"{one}/" for one in found)))
        raise UnclearError(f"{what} of the others", _with_masks(request, masks), _without(others, request, base, found))
    if request.named or request.spec.label_pattern is not None:
        return []
    ending = _mask_ending(tree) or _pair_ending(tree)
    twins = None if ending else _twins(tree)
    if twins:
        photos, drawn = twins
        answers = [[Suggestion(f"the images in {one}", {"input": request.path(one)})] for one in twins if request.root]
        paths: dict[str, object] = {"input": request.path(photos), "mask_root": request.path(drawn)}
        raise UnclearError(
            f"the images in {show_names(twins)} have the same names, as images and their masks do",
            _with_masks(request, paths if _may_be_masks(tree, photos, drawn) else None),
            *answers,
        )
    if ending:
        masks = find_suffixed_masks(tree, ending)
        raise UnclearError(
            f"there are images that end in {ending}, beside images of the same names without it, as masks do",
            _with_masks(request, masks),
            [Suggestion("the images but not their masks", {"exclude": [*request.spec.exclude, f"*{ending}*"]})],
        )
    return []


def globs_of(paths: Sequence[str], request: Request, tree: FolderTree | None) -> list[str]:
    """Globs of all that is in some folders.

    Args:
      tree: of the input; very many folders of the same name and depth get a single glob, if it fits. None for a glob
        each.
    """
    head = "*/" if request.key_prefix else ""
    if tree is not None and len(paths) > _MOST_PATHS:
        kinds = dict.fromkeys((path.count("/"), path.rpartition("/")[2]) for path in paths)
        folders = [path.split("/") for path, folder in tree.walk() if folder.images]
        found = {"/".join(parts[: depth + 1]) for depth, _ in kinds for parts in folders if len(parts) > depth}
        if {path for path in found if (path.count("/"), path.rpartition("/")[2]) in kinds} == set(paths):
            return [f"{head}{'*/' * depth}{glob.escape(name)}/**" for depth, name in kinds]
    return [f"{head}{glob.escape(path)}/**" for path in paths]


def exclude(paths: Sequence[str], request: Request, tree: FolderTree) -> dict[str, list[str]]:
    """The setting `exclude` with some folders more."""
    return {"exclude": [*request.spec.exclude, *globs_of(paths, request, tree)]}


def _with_masks(request: Request, settings: dict[str, object] | None) -> list[Suggestion]:
    """The answer that the images have masks, unless the request says where masks are."""
    if settings is None or request.root is None or any(getattr(request.spec, name) for name in MASK_SETTINGS):
        return []
    return [Suggestion("the images with their masks", {**settings, "layout": "segmentation"})]


def _without(others: FolderTree, request: Request, base: str, found: Sequence[str]) -> list[Suggestion]:
    """The answer that the images are wanted without the annotations in some folders.

    Args:
      others: the tree without them.
    """
    meaning = "the images but not their annotations"
    if request.by_folders and all(folder.images < 2 for _, folder in others.walk()):
        return []  # A folder for each image is no class.
    if request.root and not others.images(base):
        below = others.below(base)
        is_beside = all(path.rpartition("/")[0] == base for path in found)
        if len(below) == 1 and is_beside:
            return [Suggestion(meaning, {"input": request.path(join(base, below[0]))})]
    settings = exclude(found, request, others)
    return [Suggestion(meaning, settings)] if len(settings["exclude"]) <= _MOST_GLOBS else []


def _annotation_folders(tree: FolderTree) -> list[str]:
    """The outermost folders of images that annotate those of the folders beside them."""
    found: set[str] = set()
    for path, folder in tree.walk():
        parts = path.split("/") if folder.images else []
        for depth, name in enumerate(parts):
            parent = "/".join(parts[:depth])
            if is_annotation(name) and _annotates(tree, parent, name):
                found.add(join(parent, name))
                break
    return sorted(found)


def _annotates(tree: FolderTree, parent: str, name: str) -> bool:
    """Whether the folder of a name that annotations have is beside what they can annotate, and not a class."""
    others = [one for one in tree.below(parent) if not is_annotation(one)]
    if tree.images(parent) or any(is_container(one) or split_in_name(one) for one in others):
        return True
    inner = set(tree.below(join(parent, name)))
    if inner and any(inner & set(tree.below(join(parent, one))) for one in others):
        return True
    stems = _stems(tree.names([join(parent, name)]))
    shared = stems & _stems(tree.names(join(parent, one) for one in others))
    return len(others) == 1 and bool(stems) and len(shared) * 2 > len(stems)


def _mask_ending(tree: FolderTree) -> str | None:
    """The ending by which masks differ from the photos beside them."""
    for _, folder in tree.walk():
        endings = [found[1] for _, name in folder.names if (found := _MASK_ENDING.search(name))]
        if 0.15 * len(folder.names) <= len(endings) <= 0.85 * len(folder.names) and endings:
            return max(endings, key=endings.count)
    return None


def _twins(tree: FolderTree) -> tuple[str, str] | None:
    """Two folders side by side whose images have the same names: that of the images, and that of their masks."""
    parents = {path.rpartition("/")[0] for path, folder in tree.walk() if folder.images and path}
    for parent in sorted(parents):
        names = tree.below(parent)
        first, second = paths = [join(parent, name) for name in names] if len(names) == 2 else ("", "")
        if not first or any(map(split_in_name, names)) or any(map(tree.below, paths)):
            continue
        stems, others = (_plain_stems(tree.names([path])) for path in paths)
        if not 0.9 < tree.images(first) / tree.images(second) < 1.1 or len(stems & others) < 0.9 * len(stems | others):
            continue
        # Photos of two classes may be numbered alike.
        if _may_be_masks(tree, second, first):
            return second, first
        if _may_be_masks(tree, first, second) or not _are_numbered(stems, tree.images(first)):
            return first, second
    return None


def _may_be_masks(tree: FolderTree, images: str, masks: str) -> bool:
    """Whether the photos in a folder are compressed, and what is in the other can be read as numbers."""
    return all(map(JPEG.search, tree.names([images]))) and not any(map(JPEG.search, tree.names([masks])))


def _are_numbered(stems: Iterable[str], count: int) -> bool:
    """Whether names are those of a counter: they tell nothing of their images."""
    numbers = [re.findall(r"\d+", stem) for stem in stems]
    words = {re.sub(r"\d+", "", stem) for stem in stems}
    return len(words) == 1 and all(len(some) > 1 or (some and int(some[0]) <= 2 * count + 1) for some in numbers)


def _pair_ending(tree: FolderTree) -> str | None:
    """The ending of the second image of each pair, if the images in a folder are pairs of a stem and it with this."""
    for _, folder in tree.walk():
        stems = _plain_stems(name for _, name in folder.names)
        endings = Counter(stem[len(base) :] for stem in stems if (base := pair_stem(stem)) in stems and base != stem)
        for ending, count in endings.most_common(1):
            alone = sum(pair_stem(stem) == stem for stem in stems)
            if count >= 3 and count >= 0.8 * alone and alone >= 0.8 * count and count + alone >= 0.9 * len(stems):
                return ending
    return None


def _plain_stems(names: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[0] for name in names}


def _stems(names: Iterable[str]) -> set[str]:
    """Names without their extensions and the words that masks have at their ends."""
    return {_MASK_ENDING.sub("", name).rpartition(".")[0].lower() for name in names}
