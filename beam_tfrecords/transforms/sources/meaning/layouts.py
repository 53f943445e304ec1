"""Recognizes the usual layouts of image folders. Each layout is an object with a match function and an example.

`interpret` examines the names and contents of all folders, in this order:

1. Images that annotate other images, such as masks, are not samples.
2. Folders that only wrap other folders (`images/`, `flower_photos/`, `flowers/flowers/`) are not classes.
3. If all folders have split names, they are splits.
4. The first matching layout in `LAYOUTS` determines the classes.

An ambiguous tree raises an error with suggested settings: `class_names`, `classes` and `label_pattern` define the
classes, `splits` the split folders, and `include` and `exclude` the files to use.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading
from beam_tfrecords.transforms.service_faults import suppress_refusals
from beam_tfrecords.transforms.sources.detect.interpretation import (
    Interpretation,
    ListedLabels,
    Request,
    UnclearError,
    depth_of,
    join,
    show_names,
    write_splits,
)
from beam_tfrecords.transforms.sources.detect.names import (
    are_numbered,
    is_container,
    is_known,
    is_split,
    is_thing,
    is_wrapper,
    named_split,
    names_annotations,
    normalize,
    split_in_name,
)
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.meaning.annotated import all_are_classes, exclude, refuse_annotations
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.path_labels import named_split_folders
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.splits import (
    DEFAULT_SPLIT,
    is_name,
    kinds_of_words,
    means_evaluation,
    split_of_folder,
    split_words,
)

_MOST_DEPTH = 20
_MOST_ALONE = 3
# Files of two folders to compare.
_MOST_READ = 5
_WORD = re.compile(r"[^\s_().-]+")
_SPLITS = ("train", "validation", "test")
# The class in a file name: a word before a number (cat.12.jpg), before a delimiter (cat-b2f.jpg), or last (12_cat.jpg).
NAME_PATTERNS = (
    r"(?P<label>[^/]*[^/\d ._-])[ ._-]*\(?\d+\)?\.[^./]+$",
    r"(?:^|/)(?P<label>[A-Za-z]+)[ ._-][^/]*\.[^./]+$",
    r"(?:^|/)\d+[ ._-](?P<label>[A-Za-z][A-Za-z _-]*)\.[^./]+$",
)
# The name of each of several folders, or archives.
NAMES_OF_INPUTS = ("^(?P<label>[^/]+)/", r"^(?P<label>[^/]+?)\.(t|zip)[^/]*/")
# Words that cameras and programs put before numbers.
_NO_CLASSES = frozenset({"dsc", "dscn", "dscf", "pxl", "mvi", "mvimg", "gopr", "scan", "frame", "screenshot", "output"})
_UNLABELLED = re.compile(r"(?:un|not?[ _-]?)(?:label+ed|labels?|annotated|sup|supervised)", re.IGNORECASE)
_HOW_TO_LABEL = (
    "; `label_pattern=(?P<label>cat|dog)` finds classes in names, a table (csv, jsonl, parquet) can list them, or sort "
    "the images into a folder per class"
)


def interpret(tree: FolderTree, request: Request) -> tuple[Interpretation, list[str]]:
    """Returns the interpretation of the folders, and notes on it.

    Raises:
      UnclearError: the folders are ambiguous.
    """
    notes: list[str] = []
    bases = _find_bases(tree, request, notes)
    if not request.by_folders:
        return Interpretation(bases if any(bases.values()) else {"": None}), notes
    return _find_classes(Level(tree, request, bases, notes)), notes


@dataclasses.dataclass(frozen=True)
class Level:
    """The folders that may be the classes.

    Attributes:
      tree: all folders of the input.
      request: the request.
      bases: path of a parent folder -> split of its images, or None.
      notes: notes on the interpretation; the layouts add to these.
      lists: as in `Interpretation`, for bases that are not in `bases`.
    """

    tree: FolderTree
    request: Request
    bases: Mapping[str, str | None]
    notes: list[str]
    lists: Mapping[str, ListedLabels] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def _paths(self) -> Mapping[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for base in self.bases:
            for name in self.tree.below(base):
                found[name].append(join(base, name))
        return found

    @functools.cached_property
    def names(self) -> list[str]:
        """Names of the folders."""
        return sorted(self._paths)

    def paths(self, name: str) -> list[str]:
        """Returns the paths of the folders with a name."""
        return self._paths.get(name, [])

    @functools.cached_property
    def inner(self) -> Mapping[str, list[str]]:
        """Name -> names of the subfolders of all folders with this name."""
        return {
            name: sorted({one for path in self.paths(name) for one in self.tree.below(path)}) for name in self.names
        }

    @functools.cached_property
    def found(self) -> list[str]:
        """Names of all subfolders."""
        return sorted({one for names in self.inner.values() for one in names})

    @functools.cached_property
    def deep(self) -> list[str]:
        """Names of the folders that contain folders and no images."""
        return [name for name in self.names if self.inner[name] and not any(map(self.tree.images, self.paths(name)))]

    @property
    def is_flat(self) -> bool:
        """Whether all images are exactly two folders below the bases."""
        return len(self.deep) == len(self.names) and not any(
            self.tree.below(join(path, one)) for name in self.names for path in self.paths(name) for one in self.found
        )

    def down(self) -> dict[str, str | None]:
        """Returns the bases of the next level down."""
        return {join(base, name): split for base, split in self.bases.items() for name in self.tree.below(base)}

    def note(self, recognized: str) -> None:
        """Adds a note on a recognized layout, if folders give the labels."""
        if self.request.by_folders:
            self.notes.append(f"{recognized}; `label_pattern` or `class_names` says otherwise")


@dataclasses.dataclass(frozen=True)
class FolderLayout:
    """A usual layout of class folders.

    Attributes:
      example: image paths in this layout.
      match: returns the interpretation if the folders have this layout, else None; raises `UnclearError` if ambiguous.
    """

    example: str
    match: Callable[[Level], Interpretation | None]


# Wrapper folders


def _peel(tree: FolderTree, request: Request, path: str, notes: list[str]) -> str:
    """Descends through wrapper folders to the first folder that contains images or several folders."""
    while True:
        name = _wrapped(tree, request, path)
        if name is None:
            return path
        path = join(path, name)
        what = "only wraps other folders" if tree.below(path) else "holds all images there"
        Level(tree, request, {}, notes).note(f"{printable(path)}/ {what}")


def _wrapped(tree: FolderTree, request: Request, path: str) -> str | None:
    """Returns the only folder in a folder if it wraps other folders and is not a class, else None."""
    name = _only(tree, path)
    if name is None or normalize(name) in request.named:
        return None
    outer = storage.basename(path) if path else request.name
    if name == outer or _only(tree, join(path, name)) == name:
        return name
    if split_in_name(name) is not None and not is_container(name):
        return None
    return name if is_wrapper(name) or _leads_on(tree, join(path, name)) else None


def _only(tree: FolderTree, path: str) -> str | None:
    names = tree.below(path)
    return names[0] if len(names) == 1 and not tree.images(path) else None


def _leads_on(tree: FolderTree, path: str) -> bool:
    """Whether single folders lead to several split folders, to one with classes, or to a wrapper of the classes."""
    for _ in range(_MOST_DEPTH):
        name = _only(tree, path)
        if name is None or split_of_folder(name):
            break
        path = join(path, name)
        if is_container(name):
            return bool(tree.below(path))
    names = tree.below(path)
    splits = [name for name in names if named_split(name)[1]]
    are_splits = len(splits) > 1 or any(tree.below(join(path, one)) for one in names)
    return bool(splits) and len(splits) == len(names) and are_splits


# Splits


def _find_bases(tree: FolderTree, request: Request, notes: list[str]) -> dict[str, str | None]:
    """Returns path -> split of the parent folders of the classes or images."""
    named = named_split_folders(request.needs.splits)
    if named is not None:
        bases: dict[str, str | None] = {folder: split for folder, split in named.items() if tree.total(folder)}
        notes += refuse_annotations(tree, request, "")
        return bases or {**named}
    are_auto = request.needs.splits.are_auto
    looks = request.by_folders or are_auto
    base = _peel(tree, request, "", notes) if looks else ""
    notes += refuse_annotations(tree, request, base)
    splits = _find_splits(tree, request, base) if looks else {}
    if splits and not are_auto:
        raise UnclearError(
            f"`splits` has fractions, but there are the split folders {show_names(list(splits))}, which would "
            "become classes",
            [
                Reading("the splits as they are", {"splits": "auto"}),
                *_divide_anew(tree, request, base, list(splits)),
            ],
            code="input_has_splits",
        )
    _refuse_words(request, base, splits)
    return {join(base, name): split for name, split in splits.items()} if splits else {base: None}


def _find_splits(tree: FolderTree, request: Request, base: str) -> dict[str, str]:
    """Returns name -> split of the split folders in a folder; {} if there are none."""
    names = tree.below(base)
    known = {name: split for name in names if (split := split_of_folder(name))}
    # As Images beside Train Labels.
    suspects = {name: split for name in names if (split := split_in_name(name)) and not names_annotations(name)}
    others = [name for name in names if name not in suspects]
    # BraTS20_Training_001, BraTS20_Training_002, … are not splits.
    are_parts = len({*suspects.values()}) == 1 and not known and are_numbered(names)
    if not suspects or any(normalize(name) in request.named for name in names):
        return {}
    if are_parts and not request.by_folders:
        return {}
    if len(known) == len(names):
        return known
    is_majority = len(suspects) > len(others) or len(names) == 2
    if others and not (
        len(known) > 1
        or (is_majority and (bool(known) or len(set(suspects.values())) > 1))
        or _share_folders(tree, base, suspects, others)
    ):
        _refuse_split_among_classes(tree, request, base, [*filter(is_split, suspects)])
        return {}
    # If two folders have the same split, uses the one with the plain name, or else with more images.
    by_size = sorted(suspects.items(), key=lambda one: tree.total(join(base, one[0])), reverse=True)
    chosen = {split: name for name, split in [*reversed(by_size), *known.items()]}
    splits = {chosen[split]: split for split in _SPLITS if split in chosen}
    with_classes = {name: split for name, split in splits.items() if _has_classes(tree, join(base, name))}
    # As names and names-test, with the same classes.
    is_rest = len(others) == 1 and "train" not in splits.values() and _share_folders(tree, base, splits, others)
    whole = {others[0]: "train", **splits} if is_rest else {}
    # As train, query and gallery.
    inner = [tree.below(join(base, name)) for name in (*splits, *others)]
    are_alike = len({*map(bool, inner)}) == 1 and not any(map(split_of_folder, itertools.chain(*inner)))
    may_be = 0 < len(others) <= _MOST_ALONE and "train" in splits.values() and all(map(is_name, others)) and are_alike
    each = {**splits, **{name: name for name in others}} if may_be else {}
    more = f", but also images in {show_names(others, quote=True)} beside them" if others else ""
    named = [] if are_parts else [whole, each, with_classes, splits] if request.by_folders else [each, splits]
    answers = [answer for some in named for answer in _name_splits(request, base, some)]
    classes = all_are_classes(names) if request.by_folders else []
    raise UnclearError(
        f"there are folders that look like splits, {show_names(sorted(suspects))}{more}",
        # Folders with a word for one split may be classes: training_fake, training_real.
        [*classes, *answers]
        if len(splits) == 1 < len(suspects) and not others
        else answers + (classes if len(others) >= len(suspects) else []),
        code="split_or_class",
    )


def _refuse_words(request: Request, base: str, splits: Mapping[str, str]) -> None:
    """Raises an error if folders have different words for one split, such as `validation` and `evaluation`."""
    for split in dict.fromkeys(splits.values()):
        names = [name for name in splits if splits[name] == split]
        if len(kinds_of_words(names)) < 2:
            continue
        answers = []
        if any(map(means_evaluation, names)) and "test" not in splits.values():
            as_test = {name: "test" if means_evaluation(name) else one for name, one in splits.items()}
            answers += [
                dataclasses.replace(one, meaning="eval as test") for one in _name_splits(request, base, as_test)
            ]
        if request.root:
            inputs = [f"{one}={request.path(join(base, name))}" for name, one in splits.items()]
            answers += [Reading(f"all of these as {split}", {"input": inputs})]
        raise UnclearError(
            f"the folders {show_names(names)} are words for one split, {split}; name the split of each",
            answers,
            code="unclear_splits",
        )


def _share_folders(tree: FolderTree, base: str, suspects: Iterable[str], others: Iterable[str]) -> bool:
    """Whether a suspect and another folder share subfolder names, like splits with the same classes."""
    found = {name for suspect in suspects for name in tree.below(join(base, suspect))}
    return any(not found.isdisjoint(tree.below(join(base, other))) for other in others)


def _refuse_split_among_classes(tree: FolderTree, request: Request, base: str, known: Sequence[str]) -> None:
    """Raises an error for a folder such as `test` among classes, unless it is a class among others like it."""
    names = tree.below(base)
    doubtful = [name for name in known if not is_thing(name, names) or tree.below(join(base, name))]
    if request.by_folders and doubtful:
        without = _without(tree, request, [join(base, name) for name in doubtful])
        # Beside a training split, others are further parts; beside a test split, classes.
        alone = [split_in_name(name) == "train" and not tree.below(join(base, name)) for name in doubtful]
        raise UnclearError(
            f"the folder {show_names(doubtful)} beside others with images may be a split or a class",
            [
                *(_name_splits(request, base, {doubtful[0]: "train"}) if alone == [True] else without),
                *all_are_classes(names),
            ],
            code="split_or_class",
        )


def _name_splits(request: Request, base: str, splits: Mapping[str, str | None]) -> list[Reading]:
    """Suggests using some folders as the splits."""
    if not splits or (base and not request.root):
        return []
    moved = {"input": request.path(base)} if base else {}
    return [Reading(f"the images in {', '.join(splits)}", {**moved, "splits": write_splits(splits)})]


def _divide_anew(tree: FolderTree, request: Request, base: str, names: Sequence[str]) -> list[Reading]:
    """Suggests dividing the images of all split folders by fractions."""
    if request.root is None:
        return [Reading("all images, split again", {"label_pattern": request.class_pattern(depth_of(base) + 1)})]
    inputs = []
    for name in names:
        try:
            interpret(tree.inside(join(base, name)), Request(request.spec, request.needs, name=name))
            inputs.append(request.path(join(base, name)))
        except UnclearError:
            continue
    which = "all images" if len(inputs) == len(names) else f"the images in {', '.join(inputs)}"
    return [Reading(f"{which}, split again", {"input": inputs})] if inputs else []


def _has_classes(tree: FolderTree, path: str) -> bool:
    return bool(tree.below(path)) and not tree.images(path)


# Classes


def _find_classes(level: Level) -> Interpretation:
    """Returns the interpretation of the class folders."""
    bases = {_peel(level.tree, level.request, base, level.notes): split for base, split in level.bases.items()}
    level = dataclasses.replace(level, bases=bases)
    lists = _find_labels(level)
    if lists:
        level = dataclasses.replace(
            level, bases={base: bases[base] for base in bases if base not in lists}, lists=lists
        )
    _refuse_unlabelled(level)
    found = next(found for layout in LAYOUTS if (found := layout.match(level)) is not None)
    listed = {base: split for base, split in bases.items() if base in lists}
    return dataclasses.replace(found, bases={**found.bases, **listed}, lists=lists) if lists else found


def _refuse_unlabelled(level: Level) -> None:
    """Raises an error for a folder among classes whose name says that its images have no label."""
    names = [name for name in level.names if _UNLABELLED.fullmatch(name) and normalize(name) not in level.request.named]
    if names and len(names) < len(level.names):
        raise UnclearError(
            f"the name of the folder {show_names(names)} beside the classes says that its images have no label",
            [
                *_without(level.tree, level.request, [path for name in names for path in level.paths(name)]),
                *all_are_classes(level.names),
            ],
            code="unclear_folders",
        )


def _find_labels(level: Level) -> dict[str, ListedLabels]:
    """Returns base -> labels, for split folders without class folders whose labels are in a list."""
    from beam_tfrecords.transforms.sources.meaning.row_sidecars import find_labels

    folder, tree = level.request.folders[0] if len(level.request.folders) == 1 else None, level.tree
    flat = [base for base in level.bases if not tree.below(base)]
    if folder is None or not flat or not level.names:
        return {}
    listed = {base: find_labels(tree, folder, base, level.bases[base], level.names) for base in flat}
    found = {base: one for base, one in listed.items() if one is not None}
    for base, one in found.items():
        some, images = len(one.labels), tree.total(base)
        counts = "" if some == images else f": {some:,} labels for {images:,} images"
        level.notes.append(f"{printable(one.path)} has the labels of the images in {printable(base)}{counts}")
        level.notes.extend(one.notes)
    return found


def _named_classes(level: Level) -> Interpretation | None:
    """Matches folders with the class names of the request, at any depth."""
    named = level.request.named
    while named and level.names:
        if named & set(map(normalize, level.names)):
            return _splits_in_classes(level) or Interpretation(level.bases)
        level = dataclasses.replace(level, bases=level.down())
    return None


def _images_alone(level: Level) -> Interpretation | None:
    """Matches if most images are not in a folder that may be a class; raises an error if there are any."""
    tree, bases = level.tree, level.bases
    direct, total = sum(map(tree.images, bases)), sum(map(tree.total, bases))
    if not total:
        return Interpretation(bases)  # The caller reports that there are no images.
    where = ", ".join(printable(base) or "it" for base in list(bases)[:10])
    if not level.names:
        where = "its split folders" if any(bases.values()) else where
        raise _directly_in(f"the images are directly in {where}", level)
    if all(map(tree.below, bases)) and direct * 2 > total:
        raise _directly_in(f"{direct:,} of {total:,} images are directly in {where}", level)
    return None


def _directly_in(found: str, level: Level) -> UnclearError:
    """Returns the error for images without class folders; suggests classes from the names of inputs or files."""
    request, bases = level.request, level.bases
    answers = []
    if not any(bases) and _names_are_classes(request):
        is_archive = source_of_file(request.key_prefix.rstrip("/")) is not None
        name = NAMES_OF_INPUTS[is_archive]
        answers.append(Reading("the name of each input as a class", {"label_pattern": name}))
    pattern = find_name_pattern(level.tree.names(bases))
    if pattern:
        answers.append(Reading("the images with the class from the names of the files", {"label_pattern": pattern}))
    elif len(request.folders) == 1 and not (request.spec.globs or request.says_splits):
        for base in bases:
            pattern = find_name_pattern(level.tree.names([base])) if base else None
            if pattern:
                meaning = f"the images in {base} with the class from the names of the files"
                back = {"splits": None} if request.needs.splits.folders else {}
                below = storage.join(request.folders[0], base)
                answers.append(Reading(meaning, {"input": below, "label_pattern": pattern, **back}))
    return UnclearError(f"{found}, so no folder names their class{_HOW_TO_LABEL}", answers, code="no_class_folders")


def _names_are_classes(request: Request) -> bool:
    """Whether the names of the inputs may be classes, rather than numbered parts."""
    if request.says_splits:
        return False
    words = {re.sub(r"[\d_.-]", "", name.partition(".")[0]) for name in request.inputs}
    return len(words) > 1 and not any(map(is_known, words))


def find_name_pattern(names: Sequence[str]) -> str | None:
    """Returns a pattern that finds the class in file names; None if the names do not seem to contain classes."""
    if any("\\" in name for name in names):  # Paths of Windows, which some programs write into zip archives.
        return None
    for pattern in NAME_PATTERNS:
        labels = [found["label"] for name in names if (found := re.search(pattern, name))]
        classes = set(labels)
        if len(labels) < len(names) or not 2 <= len(classes) <= 0.75 * len(names):
            continue
        if not any(one.lower() in _NO_CLASSES or is_known(one) for one in classes):
            return pattern
    return None


def _splits_without_classes(level: Level) -> Interpretation | None:
    """Raises an error if only some splits have class folders."""
    flat = [base for base in level.bases if not level.tree.below(base)]
    if not flat:
        return None
    answers = _without(level.tree, level.request, flat)
    named = level.request.needs.splits.folders
    if named:
        kept = {one: split for one, split in named.items() if not any(f"{n}/".startswith(f"{one}/") for n in flat)}
        answers = [Reading(f"the images in {', '.join(kept)}", {"splits": write_splits(kept)})] if kept else []
    # The labels of a validation split, or of a split with a list, are elsewhere.
    is_test = not (named or level.lists) and {level.bases[base] for base in flat} == {"test"}
    labeled = [base for base in level.bases if base not in flat]
    pattern = rf"(?:^|/)(?:{'|'.join(map(re.escape, labeled))})/(?P<label>[^/]+)/"
    bare = Reading(f"the images in {', '.join(flat)} without labels", {"label_pattern": pattern})
    raise UnclearError(
        f"no folders name the classes of the images in {show_names(flat)}, unlike the images in {show_names(labeled)}",
        [*answers, bare] if is_test else answers,
        has_lists=bool(level.lists),
        code="no_class_folders",
    )


def _splits_of_other_classes(level: Level) -> Interpretation | None:
    """Raises an error if a split shares few of its classes with the others, unless the request names the splits."""
    names: dict[str | None, set[str]] = {}
    for base, split in level.bases.items():
        names.setdefault(split, set()).update(level.tree.below(base))
    alone = []
    for base, split in level.bases.items():
        known = names[split] & set[str]().union(*(some for other, some in names.items() if other != split))
        # Training may have classes that another split lacks; most classes of another split should be in training.
        is_odd = split not in (None, DEFAULT_SPLIT) and 2 * len(known) < len(names[split])
        alone += [base] if is_odd or not known else []
    if len(names) < 2 or not alone or level.request.needs.splits.folders is not None:
        return None
    others = [base for base in alone if level.bases[base] != "train"]
    splits = {base: split for base, split in level.bases.items() if split}
    meaning = "these splits, with different classes"
    # As with a folder for each person, in which the folders are the classes.
    inner = {split: set[str]() for split in names}
    for base, split in level.bases.items():
        inner[split].update(one for name in level.tree.below(base) for one in level.tree.below(join(base, name)))
    first, depth = next(iter(inner.values())), depth_of(min(level.bases))
    are_shared = len(first) > 1 and all(one == first for one in inner.values()) and not any(map(is_known, first))
    pattern = level.request.class_pattern(depth + 1)
    is_deep = any("/" in base for base in splits)
    outer = {"label_pattern": level.request.class_pattern(depth)}
    apart = [Reading(meaning, outer if is_deep else {"splits": write_splits(splits)})]
    left = _without(level.tree, level.request, others) if others else []
    shared = [Reading(f"the classes {_first(sorted(first))}", {"label_pattern": pattern})] if are_shared else []
    raise UnclearError(
        f"the class folders in {show_names(alone)} differ from the class folders of the other splits, which have less "
        "than half of these classes",
        # Where other splits share their classes, folders with other names are none.
        [*shared, *(apart + left if len(alone) == len(level.bases) else left + apart)],
        code="classes_differ_by_split",
    )


def _parts(level: Level) -> Interpretation | None:
    """Matches folders such as part_1 or images that contain the class folders and are not classes."""
    containers = [name for name in level.names if is_container(name)] or _ranges(level)
    if containers and len(containers) < len(level.names) and len(level.deep) < len(level.names):
        others = [name for name in level.names if name not in containers]
        raise UnclearError(
            f"{show_names(containers)} looks like a part of the dataset, but is beside the class {show_names(others)}",
            [
                *_without(level.tree, level.request, [path for name in containers for path in level.paths(name)]),
                *all_are_classes(level.names),
            ],
            code="part_or_class",
        )
    if len(containers) < len(level.names):
        return None
    down = dataclasses.replace(level, bases=level.down())
    if len(level.deep) < len(level.names):
        where = ", ".join(map(printable, list(down.bases)[:10]))
        raise _directly_in(f"the images are directly in {where}", down)
    level.note(f"{show_names(level.names)} are read as parts, not as classes")
    return _find_classes(down)


def _ranges(level: Level) -> list[str]:
    """Returns the folders if each has the number of its first image: 00000/00000.png to 01000/01999.png; else []."""
    starts = sorted(int(name) for name in level.names if name.isdecimal())
    if len(starts) < len(level.names) or len(starts) < 2 or level.found:
        return []
    ends = dict(zip(starts, [*starts[1:], math.inf], strict=True))
    for name in level.names:
        stems = [one.rpartition(".")[0] for one in level.tree.names(level.paths(name))]
        if not all(stem.isdecimal() and int(name) <= int(stem) < ends[int(name)] for stem in stems):
            return []
    return level.names


def _around_classes(level: Level) -> Interpretation | None:
    """Raises an error for a single folder with subfolders, which may be a class or contain the classes."""
    if len(level.names) > 1 or not level.deep:
        return None
    path = first = level.paths(level.names[0])[0]
    while len(level.tree.below(path)) == 1 and not level.tree.images(path):
        path = join(path, level.tree.below(path)[0])
    if not level.tree.below(path) and "/" in path:
        path = path.rpartition("/")[0]
    meaning, is_whole = f"the folders in {path} as classes", list(level.bases.values()) == [None]
    name, classes = level.names[0], level.tree.below(path)
    pattern = level.request.class_pattern(depth_of(path))
    inside = [Reading(meaning, {"input": level.request.path(path)})] if level.request.root and is_whole else []
    raise UnclearError(
        f"all images are in the folder {printable(first)}, which would be the only class, but it holds the folders "
        f"{show_names(level.inner[name])}",
        [
            *inside,
            # Lists of splits name the images from the root on.
            Reading(f"the classes {_first(classes)}", {"label_pattern": pattern}),
            Reading(f"the class {name}", {"class_names": name}),
        ],
        code="single_class",
    )


def _splits_in_classes(level: Level) -> Interpretation | None:
    """Matches class folders that each contain split folders."""
    splits = {name: split for name in level.found if (split := split_of_folder(name))}
    is_free = level.request.needs.splits.are_auto and not any(level.bases.values())
    if not (level.is_flat and splits and len(splits) == len(level.found) and is_free):
        return None
    level.note(f"the folders {show_names(sorted(splits))} in the class folders are the splits")
    return Interpretation(level.bases, inner_splits=splits)


def _containers_in_classes(level: Level) -> Interpretation | None:
    """Matches class folders that each contain a folder such as images."""
    if not (level.is_flat and level.found and all(map(is_container, level.found))):
        return None
    level.note(f"the folders {show_names(level.found)} in the class folders are not classes")
    return Interpretation(level.bases)


def _first_letters(level: Level) -> Interpretation | None:
    """Matches folders of first letters that contain the class folders; the whole path is the class."""
    if len(level.deep) < len(level.names) or not all(
        len(name) == 1 and all(one[:1].lower() == name.lower() for one in level.inner[name]) for name in level.names
    ):
        return None
    level.note(f"the folders {show_names(level.names)} are the first letters of the class folders in them")
    return Interpretation(level.down(), is_nested=True)


def _copies(level: Level) -> Interpretation | None:
    """Raises an error for a folder that may be a copy of its siblings, judging by its files or subfolders."""
    names = {*level.names}
    with suppress_refusals():
        equal = _find_equal(level)
    if equal:
        raise UnclearError(
            f"the files in the folder {show_names(equal)} are those in the folder beside it",
            [*_without(level.tree, level.request, equal), *all_are_classes(level.names)],
            code="part_or_class",
        )
    copies = [name for name in level.names if level.inner[name] and {*level.inner[name]} <= names - {name}]
    # Folders that are named by the digits of hashes have the same names at each level.
    if not 0 < len(copies) < len(names) or max(map(len, names)) == 1:
        return None
    paths = [path for name in copies for path in level.paths(name)]
    held = sorted({one for name in copies for one in level.inner[name]})
    are_inputs = level.request.root and not any(level.bases.values())
    alone = [Reading(f"the images in {one}", {"input": level.request.path(one)}) for one in paths if are_inputs]
    raise UnclearError(
        f"{show_names(paths)} holds folders with the names of those beside it ({show_names(held)}), so that it may be "
        "a copy, or a part of the dataset",
        [*_without(level.tree, level.request, paths), *alone[:_MOST_ALONE]],
        code="part_or_class",
    )


def _find_equal(level: Level) -> list[str]:
    """Returns the folders with the same files as a sibling whose name is part of theirs."""
    tree, request, names = level.tree, level.request, {*level.names}

    def read(path: str, files: Sequence[str]) -> list[bytes]:
        whole = [request.path(join(path, one)) for one in files]
        return [storage.read_bytes(one) for one in whole if storage.is_file(one)]

    found = []
    for name in level.names if request.root else ():
        words = [*_WORD.finditer(name)]
        parts = {name[first.start() : last.end()] for first in words for last in words} & names - {name}
        for path in level.paths(name) if parts else ():
            some = tree.names([path])[:_MOST_READ]
            files = read(path, some)
            others = [join(path.rpartition("/")[0], one) for one in parts]
            # Files that are all alike are those of many folders.
            if len({*files}) > 1 and any(read(one, some) == files for one in others):
                found.append(path)
    return found


def _two_levels(level: Level) -> Interpretation | None:
    """Raises an error for two levels of folders, either of which may be the classes."""
    if not level.deep:
        return None
    tree, request, names, found = level.tree, level.request, level.names, level.found
    if len(level.bases) > 1 and not any(level.bases.values()) and all(map(split_of_folder, names)):
        # Parts with split folders of their own, such as folds.
        raise UnclearError(
            f"{show_names([*level.bases])} hold split folders ({show_names(names)}); name the one that is meant",
            [Reading(f"the images in {one}", {"input": request.path(one)}) for one in level.bases if request.root],
            code="unclear_class_level",
        )
    base, depth = min(level.bases), depth_of(min(level.bases))
    shared = set.intersection(*(set(level.inner[name]) for name in names))
    hold = "the same folders" if shared and len(shared) == len(found) else "other folders"
    outer = Reading(f"the classes {_first(names)}", {"label_pattern": request.class_pattern(depth)})
    pattern = f"{request.class_pattern(depth).removesuffix('[^/]+)/')}.+)/[^/]+$"
    inner = Reading("the whole path of a folder as its class", {"label_pattern": pattern})
    deepest = list[Reading]()
    if not any(tree.images(join(base, name)) for name in names):
        below = dataclasses.replace(level, bases=level.down())
        while below.names and (len(below.names) < 2 or all(map(is_container, below.names))):
            below = dataclasses.replace(below, bases=below.down())
        deepest += [inner] if len(below.found) > 1 and not any(map(is_known, below.found)) else []
        pattern = request.class_pattern(depth_of(next(iter(below.bases))) if below.bases else depth + 1)
        inner = Reading(f"the classes {_first(below.names or found)}", {"label_pattern": pattern})
    alone = []
    repeats = sum(map(len, level.inner.values())) > len(found)
    are_classes = len(level.inner[names[0]]) > 1 or all(map(is_container, found))
    are_counted = all(re.fullmatch(r"0\d+|\d{3,}", name) for name in found)
    # The same classes in each folder, but no counters, make the outer folders variants, such as color and grayscale.
    are_variants = repeats and are_classes and len(shared) == len(found) and not are_counted
    are_splits = all(named_split(name)[1] for name in found)
    levels = [*([inner, outer] if are_variants else [outer, inner]), *deepest]
    # Of folders that hold splits, each is a dataset.
    with_splits = [one for one in names if any(map(split_words, tree.inside(join(base, one)).folders))]
    hold_splits = bool(with_splits)
    if (hold_splits or (repeats and are_classes)) and request.root and not any(level.bases.values()):
        ordered = [*with_splits, *(one for one in names if one not in with_splits)]
        paths = [join(base, one) for one in ordered[: _MOST_ALONE if hold_splits or are_splits else 1]]
        what = "the images in {}" if hold_splits else "the folders in {} as classes"
        alone = [Reading(what.format(one), {"input": request.path(one)}) for one in paths]
    marked = [path for name in names if names_annotations(name) for path in level.paths(name)]
    depths = "" if len(level.deep) == len(names) else "the images lie at different depths: "
    raise UnclearError(
        f"{depths}the folders {show_names(names)} hold {hold} ({show_names(found)}), so either may be the classes",
        [*(_without(tree, request, marked) if marked else ()), *([] if are_splits else levels), *alone],
        code="unclear_class_level",
    )


def _classes(level: Level) -> Interpretation:
    """Interprets each folder as a class, including all images below it."""
    with_inner = [name for name in level.names if level.inner[name]]
    if with_inner:
        level.note(f"images in folders of the class folder {printable(with_inner[0])} are of that class")
    return Interpretation(level.bases)


LAYOUTS = (
    FolderLayout("any/depth/cat/1.jpg any/depth/dog/1.jpg", _named_classes),
    FolderLayout("1.jpg 2.jpg", _images_alone),
    FolderLayout("train/cat/1.jpg train/dog/1.jpg test/1.jpg", _splits_without_classes),
    FolderLayout("train/cat/1.jpg test/dog/1.jpg", _splits_of_other_classes),
    FolderLayout("part_1/cat/1.jpg part_1/dog/1.jpg part_2/dog/2.jpg", _parts),
    FolderLayout("any/cat/1.jpg any/dog/1.jpg", _around_classes),
    FolderLayout("cat/train/1.jpg cat/test/2.jpg dog/train/1.jpg", _splits_in_classes),
    FolderLayout("cat/images/1.jpg dog/images/1.jpg", _containers_in_classes),
    FolderLayout("a/abbey/1.jpg b/barn/1.jpg", _first_letters),
    FolderLayout("cat/1.jpg dog/1.jpg all/cat/1.jpg all/dog/1.jpg", _copies),
    FolderLayout("color/apple/1.jpg color/corn/1.jpg grey/apple/1.jpg grey/corn/1.jpg", _two_levels),
    FolderLayout("cat/1.jpg dog/1.jpg", _classes),
)


def _without(tree: FolderTree, request: Request, paths: Sequence[str]) -> list[Reading]:
    """Suggests excluding some folders."""
    return [Reading(f"the images outside {show_names(paths)}", exclude(paths, request, tree))]


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (", …" if len(names) > 2 else "")
