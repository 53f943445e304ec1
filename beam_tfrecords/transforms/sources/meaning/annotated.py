"""Detects images that annotate other images, such as masks and depth maps, by their folders or name suffixes."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import glob
import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading
from beam_tfrecords.transforms.refs.sample_refs import MASK
from beam_tfrecords.transforms.service_faults import suppress_refusals
from beam_tfrecords.transforms.sources.detect.interpretation import (
    Request,
    UnclearError,
    depth_of,
    join,
    one_or_all,
    show_names,
)
from beam_tfrecords.transforms.sources.detect.mask_names import MASK_ENDING, NUMBERED_MASK
from beam_tfrecords.transforms.sources.detect.names import (
    is_annotation,
    is_container,
    is_mask_folder,
    names_annotations,
    split_in_name,
)
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.meaning.mask_pairs import find_masks, find_suffixed_masks
from beam_tfrecords.transforms.sources.meaning.pairs import (
    MOST_TWINS,
    Twins,
    are_drawn,
    find_bands,
    find_copies,
    find_families,
    find_pair_endings,
    find_parts,
    find_twins,
)
from beam_tfrecords.transforms.sources.meaning.pixels_alike import JPEG, find_drawn

_MOST_NAMES = 10
_MOST_GLOBS = 8
_MOST_PATHS = 3
_MOST_LISTED = 4
# Number of kinds of masks to suggest. Instance masks come last, because they contain no classes.
_MOST_MASKS = 2
_OBJECTS = re.compile(r"instance|panoptic", re.IGNORECASE)
# Most classes that a command names.
_MOST_CLASSES = 20
# Name of an image in a sample.
_NAME = re.compile("[a-z][a-z0-9_]*")
# Names of other features.
_TAKEN = frozenset({MASK, "label", "labels"})
# Least number of masks in the folder of many photos: 1.png, 1_mask.png, 1_mask_2.png.
_LEAST_MARKED = 3


def refuse_annotations(tree: FolderTree, request: Request, base: str) -> list[str]:
    """Checks that no images annotate other images, unless the request states which files to use.

    Args:
      tree: folders of the input.
      request: the request.
      base: path of the parent folder of the images.

    Returns:
      Notes on annotation images that `label_pattern` uses as samples.

    Raises:
      UnclearError: there are annotation images.
    """
    wanted = {name for one in request.spec.include for name in one.split("/")} | request.named
    found = [path for path in _annotation_folders(tree, request) if storage.basename(path) not in wanted]
    if found:
        count = sum(map(tree.total, found))
        what = f"the {count:,} images in {show_names(found)} look like masks or annotations"
        if request.spec.label_pattern is not None:
            globs = [f"`exclude={one}`" for one in _globs_of(found[:_MOST_NAMES], request, tree)]
            return [f"{what}; to leave them out, use {' '.join(globs)}"]
        masks = [] if request.root is None else _find_masks(tree, found, request)
        if not masks and (twins := _find_masked(tree, found, request)):
            raise _refuse_twins(twins, tree, request)
        others = _without_folders(tree, found)
        names = tree.names(path for at in found if is_mask_folder(at) for path, _ in tree.walk(at))
        raise UnclearError(
            f"{what} of the others{_describe_jpeg(names)}",
            [*masks, *_without(others, request, base, found), *([] if masks else _with_classes(tree, request, base))],
            code="images_and_masks",
        )
    if request.named or request.spec.label_pattern is not None:
        return []
    bands = find_bands(tree) if request.by_folders else None
    if bands:
        where, shown = bands
        raise UnclearError(
            f"the images in {show_names([where])} are single bands of the same pictures, such as {show_names(shown)}; "
            "put the bands of each picture into one file, and name its class",
            code="single_bands",
        )
    parts = find_parts(tree)
    if len(parts) > 1:
        # Folders that hold one sample each are not classes.
        what = f"each folder has images named {show_names(parts)}, like those of one thing"
        masks = _of_parts(parts, request)
        raise _refuse_families(what, [*map(_glob_of, parts)], request, masks=masks, layout="image")
    if endings := _mask_endings(tree, request) or find_pair_endings(tree):
        raise _refuse_endings(endings, tree, request)
    if families := find_families(tree) if request.by_folders else []:
        raise _refuse_families(
            f"the names of the images {show_names(families)} are the same but for these words, like those of one thing",
            families,
            request,
            classes=_with_classes(tree, request, base),
            base=base,
        )
    if copies := find_copies(tree):
        raise _refuse_families(
            f"the images have the same names in {show_names(copies)}, like images and their masks, which `mask_suffix` "
            "takes, or copies of one image",
            [*map(_glob_of, copies)],
            request,
            masks=_with_masks_beside(tree, copies, request),
        )
    # The only image of each folder has no partner in another one.
    twins = [] if parts else find_twins(tree, request.root or "")
    if any(not one.may_be_classes for one in twins):
        raise _refuse_twins(twins, tree, request)
    return [_note_twins(twins, request)] if twins and request.by_folders else []


def _refuse_endings(endings: Sequence[str], tree: FolderTree, request: Request) -> UnclearError:
    """Returns the error for images beside others whose names have further endings, like masks."""
    globs = [f"*{ending}*" for ending in endings]
    masks = list[Reading]()
    for ending, own in zip(endings, globs, strict=True):
        others = [one for one in globs if one != own]
        settings = find_suffixed_masks(_without_names(tree, others), ending)
        left = {"exclude": [*request.spec.exclude, *(settings or {}).get("exclude", ()), *others]} if others else {}
        found = _with_masks(request, settings and {**settings, **left})
        masks += [dataclasses.replace(one, meaning=f"{one.meaning} {ending}") for one in found] if others else found
    ends = Counter(name for _, folder in tree.walk() for _, name in folder.names if MASK_ENDING.search(name))
    bases = Counter(MASK_ENDING.sub("", name) for name in ends)
    objects = _with_object_masks(request, {"mask_suffix": endings[0]}) if max(bases.values(), default=0) > 1 else []
    ends_of = (f"{ending}." for ending in endings)
    remedy = _describe_jpeg([name for end in ends_of for name in tree.image_names if end in name])
    return UnclearError(
        f"the names that end in {' or '.join(endings)} look like masks of the images that have the same names without "
        f"it{remedy}",
        [
            *masks[:_MOST_MASKS],
            # With a mask of the image's own name, the others are not those of all objects.
            *(objects[:1] if masks else objects),
            Reading("the images but not their masks", {"exclude": [*request.spec.exclude, *globs]}),
        ],
        code="images_and_masks",
    )


def all_are_classes(names: Sequence[str]) -> list[Reading]:
    """Suggests using all folders as classes."""
    are_plain = not any(
        "," in name or name != name.strip() or (is_container(name) and name[-1:].isdecimal()) for name in names
    )
    if not 1 < len(names) <= _MOST_CLASSES or not are_plain:
        return []
    return [Reading("all folders as classes", {"class_names": ",".join(names)})]


def _describe_jpeg(masks: Sequence[str]) -> str:
    """Says what to do with masks if all are JPEG."""
    are_all = bool(masks) and all(map(JPEG.search, masks))
    return "; JPEG changes the numbers of masks, so convert the files to PNG first" if are_all else ""


def _note_twins(twins: Sequence[Twins], request: Request) -> str:
    """Returns a note on class folders whose images have the same names, as those of pairs have too."""
    folders = [path for one in twins for path in one.folders]
    joined = ", and `images` joins them" if _as_pairs(twins, request) else ""
    return (
        f"the images in {show_names(folders)} have the same names or numbers; if they show the same things, they have "
        f"no classes{joined}"
    )


def _of_parts(parts: Sequence[str], request: Request) -> list[Reading]:
    """Suggests using one of the images in each folder as the mask of another: label of img, beside label_viz."""
    masks = sorted(filter(names_annotations, parts), key=len)
    images = [one for one in parts if one not in masks]
    if not masks or len(images) != 1:
        return []
    others = {"exclude": [*request.spec.exclude, *map(_glob_of, masks[1:])]} if len(masks) > 1 else {}
    return _with_masks(request, {"image_suffix": images[0], "mask_suffix": masks[0], **others})


def _refuse_families(
    found: str,
    globs: Sequence[str],
    request: Request,
    masks: Sequence[Reading] = (),
    classes: Sequence[Reading] = (),
    base: str = "",
    **settings: str,
) -> UnclearError:
    """Returns the error for images of one thing whose names have different words.

    Args:
      found: what was found, for the message.
      globs: a glob for the images of each kind; "*" for those without a word.
      request: the request.
      masks: first answer, which uses some of the images as masks.
      classes: answer that uses all of them as samples of the classes that their folders name.
      base: path of the folder that holds these.
      settings: further settings of the other answers.
    """
    # A glob can name the images with a word, and not those without one.
    kept = ["*"] if "*" in globs else globs
    others = {one: [other for other in globs if other not in (one, "*")] for one in kept}
    answers = [
        Reading(
            "the images without these words" if one == "*" else f"the images {one}",
            {"exclude": [*request.spec.exclude, *left], **settings},
        )
        for one, left in sorted(others.items(), key=lambda pair: names_annotations(pair[0]))
    ]
    labels = {"label_pattern": request.class_pattern(depth_of(base))} if classes else {}
    pairs = [] if masks else _as_kinds(globs, request, labels)
    # A depth map or a mask is not a sample of its folder's class.
    classes = [] if any(map(names_annotations, globs)) else classes
    return UnclearError(found, [*masks, *pairs, *classes, *answers], code="images_and_masks")


def _as_kinds(globs: Sequence[str], request: Request, labels: Mapping[str, str]) -> list[Reading]:
    """Suggests joining the images of one thing of all kinds; [] if the globs do not tell these apart.

    Args:
      globs: the globs of the kinds.
      request: the request.
      labels: settings that find the labels.
    """
    names = [re.sub(r"\W+", "_", re.sub(r"\*|\.\*$", "", one).strip("_. -")).lower() for one in globs]
    are_apart = not any(
        one != other and fnmatch.fnmatchcase(other.replace("*", "x"), one) for one in globs for other in globs
    )
    are_names = all(map(_NAME.fullmatch, names)) and len({*names}) == len(names) and _TAKEN.isdisjoint(names)
    if request.root is None or not (are_apart and are_names):
        return []
    pairs = _join_images([f"{name}={request.path(f'**/{one}')}" for name, one in zip(names, globs, strict=True)])
    return [dataclasses.replace(pairs, settings={**pairs.settings, **labels})]


def _with_classes(tree: FolderTree, request: Request, base: str) -> list[Reading]:
    """Suggests using all images, with the folders in a folder as their classes, if these hold no others."""
    names = tree.below(base)
    are_others = any(tree.below(join(base, name)) or is_container(name) or split_in_name(name) for name in names)
    may_be = request.by_folders and not (tree.images(base) or are_others)
    return all_are_classes(names) if may_be else []


def _glob_of(ending: str) -> str:
    return f"*{ending}" if ending.startswith(".") else f"*{ending}.*"


def _find_masked(tree: FolderTree, found: Sequence[str], request: Request) -> list[Twins]:
    """Returns folders of any name with masks in folders of one name beside them, if these have all images."""
    may_be = request.root and not request.spec.mask_settings and len({*map(storage.basename, found)}) == 1
    twins = find_twins(tree, request.root or "") if may_be else []
    paths = {path for one in twins for path in one.folders}
    are_all = {one.masks for one in twins} == {*found} and sum(map(tree.images, paths)) == tree.total()
    are_masks = any(map(is_mask_folder, map(storage.basename, found)))
    return twins if are_all and (not are_masks or all(one.are_masks for one in twins)) else []


def _refuse_twins(twins: Sequence[Twins], tree: FolderTree, request: Request) -> UnclearError:
    """Returns the error for folders whose images form pairs."""
    families = [*zip(*(one.folders for one in twins), strict=True)]
    are_few, folders = len(twins) <= MOST_TWINS, [*map(storage.basename, twins[0].folders)]
    if are_few:
        shown = [*map(_show_family, families)]
        inputs = [_with_splits(family, request) or _glob_folders(family, request) for family in families]
    else:
        inputs = [_glob_folders(family, request) for family in families]
        shown = [f"the folders {folder}" for folder in folders]
    answers = [
        Reading(f"the images in {which}", {"input": one_or_all(paths)})
        for which, paths in zip(shown, inputs, strict=True)
        if paths
    ]
    masks: list[Reading] = []
    if are_few and all(one.are_masks and one.suffixes == twins[0].suffixes for one in twins):
        roots = [*map(request.path, families[-1])]
        for which, paths in itertools.islice(zip(shown[:-1], inputs, strict=False), _MOST_MASKS):
            drawn = roots if len(paths) == len(roots) else [request.path("")]
            settings = {"input": one_or_all(paths), "mask_root": one_or_all(drawn), **twins[0].suffixes}
            found = _with_masks(request, settings) if paths else []
            masks += [dataclasses.replace(one, meaning=f"the images in {which} with their masks") for one in found]
    # Of pairs in several splits, no setting makes samples.
    are_named = all([*map(storage.basename, one.folders)] == folders for one in twins)
    may_be = are_named and not (any(one.suffixes for one in twins) or any(map(names_annotations, folders)))
    # Others may lie beside a single pair.
    parents = {path.rpartition("/")[0] for path in twins[0].folders} if len(twins) == 1 else set[str]()
    beside = tree.below(*parents) if len(parents) == 1 else ()
    every = ",".join(dict.fromkeys([*folders, *beside]))
    classes = [Reading("all folders as classes", {"class_names": every})] if may_be else []
    pairs = _as_pairs(twins, request)
    # Views are pairs rather than classes.
    named = [*pairs, *classes] if len(twins) == 1 or twins[0].are_views else [*classes, *pairs]
    names = "the same names" if not twins[0].suffixes else "the same names but for their ends"
    remedy = "; if the folders are classes, name them in `class_names`" if twins[0].are_views else ""
    return UnclearError(
        f"the images in {', '.join(shown)} have {names}, like images and their masks, or images of one thing{remedy}",
        [*masks, *named, *answers],
        code="images_and_masks",
    )


def _show_family(folders: Sequence[str]) -> str:
    """Names the folders that are alike in all groups."""
    if len(folders) <= _MOST_LISTED:
        return show_names(folders)
    names = {*map(storage.basename, folders)}
    return f"the folders {show_names([*names])}" if len(names) == 1 else f"the folders {folders[0]} to {folders[-1]}"


def _as_pairs(twins: Sequence[Twins], request: Request) -> list[Reading]:
    """Suggests joining the images of the folders that have one name."""
    families = [*zip(*(one.folders for one in twins), strict=True)]
    names = [re.sub(r"\W+", "_", storage.basename(family[0])).lower() for family in families]
    # JPEG would change the numbers of masks.
    have_masks = len(families) > 2 or any(is_mask_folder(storage.basename(family[0])) for family in families)
    are_photos = not (have_masks and any(one.are_masks for one in twins))
    if request.root is None or not (are_photos and _TAKEN.isdisjoint(names)) or len({*names}) < len(names):
        return []
    paths = [_glob_folders(family, request) if len(twins) > 1 else [request.path(family[0])] for family in families]
    if not all(paths) or not all(map(_NAME.fullmatch, names)):
        return []
    return [_join_images([f"{name}={path}" for name, (path,) in zip(names, paths, strict=True)])]


def _join_images(named: Sequence[str]) -> Reading:
    """Suggests making one sample of the images that have the same name in several places, such as left=DIR."""
    what = "each pair of images" if len(named) == 2 else f"each {len(named)} images of one name"
    return Reading(f"{what} as one sample", {"input": None, "images": ",".join(named)})


def _glob_folders(paths: Sequence[str], request: Request) -> list[str]:
    """Returns a glob for the images of several folders that differ in the folders around them; [] if none fits."""
    levels = [*zip(*(path.split("/") for path in paths), strict=False)]
    is_even = all(path.count("/") + 1 == len(levels) for path in paths)
    if request.root is None or not is_even or len({*levels[-1]}) > 1:
        return []
    parts = [glob.escape(names[0]) if len({*names}) == 1 else "*" for names in levels]
    return [request.path("/".join([*parts, "**"]))]


def _with_splits(paths: Sequence[str], request: Request) -> list[str]:
    """Returns folders as inputs with the splits in their paths; [] if their names would clash."""
    # The name of a single folder is that of its dataset.
    end = None if len(paths) > 1 else -1
    splits = [next(filter(None, map(split_in_name, path.split("/")[:end])), None) for path in paths]
    inputs = [request.path(path) for path in paths]
    if request.root and all(splits) and len({*splits}) == len(splits):
        return [f"{split}={path}" for split, path in zip(splits, inputs, strict=True)]
    return inputs if request.root and len({*map(storage.basename, paths)}) == len(paths) else []


def _globs_of(paths: Sequence[str], request: Request, tree: FolderTree) -> list[str]:
    """Returns globs that match everything in some folders of an input.

    Merges many folders with the same name and depth into one glob if it matches no others.
    """
    head = "*/" * request.key_prefix.count("/")
    if len(paths) > _MOST_PATHS:
        kinds = dict.fromkeys((path.count("/"), path.rpartition("/")[2]) for path in paths)
        folders = [path.split("/") for path, folder in tree.walk() if folder.images]
        found = {"/".join(parts[: depth + 1]) for depth, _ in kinds for parts in folders if len(parts) > depth}
        if {path for path in found if (path.count("/"), path.rpartition("/")[2]) in kinds} <= set(paths):
            return [f"{head}{'*/' * depth}{glob.escape(name)}/**" for depth, name in kinds]
    return [f"{head}{glob.escape(path)}/**" for path in paths]


def exclude(paths: Sequence[str], request: Request, tree: FolderTree) -> dict[str, list[str]]:
    """Returns the setting `exclude` extended by some folders."""
    return {"exclude": [*request.spec.exclude, *_globs_of(paths, request, tree)]}


def _find_masks(tree: FolderTree, found: Sequence[str], request: Request) -> list[Reading]:
    """Suggests using the masks in all the folders, or in the folders of each name."""
    assert request.root is not None
    if objects := _find_object_masks(tree, found, request):
        return objects
    masks = find_masks(tree, found, request.root)
    if masks is not None:
        return _with_masks(request, masks)
    answers: list[Reading] = []
    names = {*map(storage.basename, found)}
    ordered = sorted(names, key=lambda name: (not is_mask_folder(name), bool(_OBJECTS.search(name)), name))
    for name in ordered[:_MOST_MASKS]:
        chosen = [path for path in found if storage.basename(path) == name]
        others = [path for path in found if path not in chosen]
        masks = find_masks(_without_folders(tree, others), chosen, request.root)
        if masks and "input" not in masks:
            masks["exclude"] = [*masks.get("exclude", request.spec.exclude), *_globs_of(others, request, tree)]
        meaning = f"the images with their masks in {name}"
        answers += [Reading(meaning, one.settings) for one in _with_masks(request, masks)]
    return answers


def _find_object_masks(tree: FolderTree, found: Sequence[str], request: Request) -> list[Reading]:
    """Suggests using files as masks of objects, by folders for each image, or by the image's name and a number."""
    others = _without_folders(tree, found)
    stems = {posixpath.splitext(name)[0] for _, folder in others.walk() for _, name in folder.names}
    parents = {path.rpartition("/")[0] for path in found}
    if len(parents) == len(found) > 1 and all(folder.images < 2 for _, folder in others.walk()):
        return _with_object_masks(request, {"mask_root": request.root})
    numbered = Counter(NUMBERED_MASK.sub("", posixpath.splitext(name)[0]) for name in tree.names(found))
    is_numbered = max((numbered[stem] for stem in stems), default=0) > 1
    images = [path for path, folder in others.walk() if folder.images]
    if len(found) != 1 or len(images) != 1 or not (is_numbered or stems & {*tree.below(found[0])}):
        return []
    return _with_object_masks(request, {"input": request.path(images[0]), "mask_root": request.path(found[0])})


def _with_object_masks(request: Request, settings: dict[str, Any]) -> list[Reading]:
    """Suggests using the images with a mask for each object, unless the request already sets mask settings."""
    if request.root is None or request.spec.mask_settings:
        return []
    return [
        Reading("boxes and a mask for each object", {**settings, "layout": "detection_masks"}),
        Reading("a mask of the objects for each image", {**settings, "layout": "segmentation"}),
    ]


def _without_names(tree: FolderTree, globs: Sequence[str]) -> FolderTree:
    return tree.select(lambda path: not any(fnmatch.fnmatchcase(posixpath.basename(path), one) for one in globs))


def _without_folders(tree: FolderTree, paths: Iterable[str]) -> FolderTree:
    starts = tuple(f"{path}/" for path in paths)
    return tree.select(lambda path: not path.startswith(starts))


def _with_masks_beside(tree: FolderTree, extensions: Sequence[str], request: Request) -> list[Reading]:
    """Suggests using the images with one of the extensions as masks of the others if they look like masks."""
    if request.root is None:
        return []
    names = [join(path, name) for path, folder in tree.walk() for _, name in folder.names]
    drawn = find_drawn({one: [request.path(name) for name in names if name.endswith(one)] for one in extensions})
    return _with_masks(request, {"mask_suffix": drawn[0]}) if len(drawn) == len(extensions) - 1 == 1 else []


def _with_masks(request: Request, settings: dict[str, Any] | None) -> list[Reading]:
    """Suggests using the images with masks, unless the request already sets mask settings."""
    if settings is None or request.root is None or request.spec.mask_settings:
        return []
    of_classes = "; each folder of masks is a class" if "mask_classes" in settings else ""
    return [Reading(f"the images with their masks{of_classes}", {**settings, "layout": "segmentation"})]


def _without(others: FolderTree, request: Request, base: str, found: Sequence[str]) -> list[Reading]:
    """Suggests using the images without the annotations in some folders.

    Args:
      others: the tree without these folders.
      request: the request.
      base: path of the parent folder of the images.
      found: the folders with annotations.
    """
    meaning = "the images but not their annotations"
    if request.by_folders and all(folder.images < 2 for _, folder in others.walk()):
        return []  # Folders of one image each are not classes.
    if request.root and not others.images(base):
        below = others.below(base)
        is_beside = all(path.rpartition("/")[0] == base for path in found)
        if len(below) == 1 and is_beside:
            return [Reading(meaning, {"input": request.path(join(base, below[0]))})]
    settings = exclude(found, request, others)
    return [Reading(meaning, settings)] if len(settings["exclude"]) <= _MOST_GLOBS else []


def _annotation_folders(tree: FolderTree, request: Request) -> list[str]:
    """Returns the outermost folders of images that annotate the images of sibling folders."""
    found: set[str] = set()
    container_in = functools.cache(functools.partial(_only_container, tree))

    @functools.cache
    def is_drawn(parent: str, path: str) -> bool:
        # Opens images, and is asked for each folder below the path.
        return _is_drawn(tree, container_in(parent), path, request)

    for path, folder in tree.walk():
        parts = path.split("/") if folder.images else []
        for depth, name in enumerate(parts):
            parent = "/".join(parts[:depth])
            if (is_annotation(name) and _annotates(tree, parent, name)) or is_drawn(parent, join(parent, name)):
                found.add(join(parent, name))
                break
    return sorted(found)


def _only_container(tree: FolderTree, parent: str) -> str | None:
    """Returns the only folder such as `images`, with no folders below, among several siblings."""
    names = tree.below(parent)
    found = [path for name in names if is_container(name) and not tree.below(path := join(parent, name))]
    return found[0] if len(names) > 1 and len(found) == 1 else None


def _is_drawn(tree: FolderTree, container: str | None, path: str, request: Request) -> bool:
    """Whether a folder has an image for each image of a container beside it, or masks of any names."""
    parent, _, name = path.rpartition("/")
    if container in (None, path) or is_container(name) or split_in_name(name):
        return False
    if tree.images(path) and are_drawn(tree, container, path):
        # Two folders whose images have the same names are pairs, which another question is about.
        return len(tree.below(parent)) > 2 and not tree.below(path)
    if request.root is None:
        return False
    files = {
        one: (join(at, file) for at, folder in tree.walk(one) for _, file in folder.names) for one in (container, path)
    }
    images = {one: [*map(request.path, itertools.islice(some, _MOST_PATHS))] for one, some in files.items()}
    drawn = list[str]()
    with suppress_refusals():
        drawn += find_drawn(images)
    return drawn == [path]


def _annotates(tree: FolderTree, parent: str, name: str) -> bool:
    """Whether a folder with an annotation name has siblings that it can annotate, and so is not a class."""
    others = [one for one in tree.below(parent) if not is_annotation(one)]
    if not others and parent and not tree.images(parent):
        # v1.2/labels, v1.2/panoptic: the images are in a sibling of the parent folder.
        outer, _, around = parent.rpartition("/")
        return any(map(is_container, (one for one in tree.below(outer) if one != around)))
    if tree.images(parent) or any(is_container(one) or split_in_name(one) for one in others):
        return True
    at = join(parent, name)
    inner = set(tree.below(at))
    if inner and any(inner & set(tree.below(join(parent, one))) for one in others):
        return True
    if len(others) != 1:
        return False
    # Masks may lie in subfolders, for example left and right masks.
    drawn = [path for path in (at, *(join(at, one) for one in inner)) if tree.images(path)]
    images, *several = map(_stems, tree.names_alike([join(parent, others[0]), *drawn]))
    return bool(several) and all(len(one & images) * 2 > len(one) for one in several)


def _mask_endings(tree: FolderTree, request: Request) -> list[str]:
    """Returns the suffix that distinguishes masks from photos in the same folder; [] if there is none."""
    for path, folder in tree.walk():
        endings = [found[1] for _, name in folder.names if (found := MASK_ENDING.search(name))]
        if 0.15 * len(folder.names) <= len(endings) <= 0.85 * len(folder.names) and endings:
            return [max(endings, key=endings.count)]
        # Only some names of a large folder are kept, so a few masks are found by the images beside them.
        marked = [MASK_ENDING.split(name, maxsplit=1) for _, name in folder.marked] if request.root is not None else []
        extensions = {posixpath.splitext(name)[1] for _, name in folder.names}
        paired = [
            ending
            for base, ending, _ in marked
            if any(storage.is_file(request.path(join(path, base + extension))) for extension in extensions)
        ]
        if len(paired) >= _LEAST_MARKED:
            return [max(paired, key=paired.count)]
    return []


def _stems(names: Iterable[str]) -> set[str]:
    """Returns names in lower case without extensions and mask suffixes."""
    return {posixpath.splitext(MASK_ENDING.sub("", name))[0].lower() for name in names}
