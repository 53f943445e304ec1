"""What to say instead, where the folders of an input may be several things: choices that the rules find clear."""

from __future__ import annotations

import dataclasses
import glob
import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Choice, RequestError
from beam_tfrecords.transforms.sources.detect.annotation_sidecars import describe_annotations, find_annotations
from beam_tfrecords.transforms.sources.detect.layouts import Request, UnclearError, interpret, join
from beam_tfrecords.transforms.sources.detect.mask_pairs import find_mask_files_by_suffix, find_masks
from beam_tfrecords.transforms.sources.detect.names import is_container, is_known, split_in_name
from beam_tfrecords.transforms.sources.detect.table_sidecars import find_tables, list_tables
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.source_spec import MASK_SETTINGS
from beam_tfrecords.transforms.splits import read_splits

_MOST_CHOICES = 3
_MOST_STEPS = 5
_MOST_TABLES = 2
_MOST_CLASSES = 20
_MOST_GLOBS = 8
_MOST_PATHS = 3
# How names of files give the class: a word before a number (cat.12.jpg), or before the first mark (cat-b2f.jpg).
_NAME_PATTERNS = (
    r"(?P<label>[^/]*[^/\d ._-])[ ._-]*\(?\d+\)?\.[^./]+$",
    r"(?:^|/)(?P<label>[A-Za-z]+)[ ._-][^/]*\.[^./]+$",
)
# What cameras and programs put before numbers.
_NO_CLASSES = frozenset({"dsc", "dscn", "dscf", "pxl", "mvi", "mvimg", "gopr", "scan", "frame", "screenshot", "output"})
_HOW_TO_LABEL = (
    "; `label_pattern=(?P<label>cat|dog)` finds classes in names, a table (csv, jsonl, parquet) can list them, or sort "
    "the images into a folder per class"
)
# In the words of a choice: how the images get their labels.
_FOLDERS, _NAMES, _UNLABELLED = (
    "with the folders as classes",
    "with the class from the names of the files",
    "without labels",
)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a tree is.

    Attributes:
      where: the input, as messages quote it.
      root: path of the folder; None if it is no folder, not the only input, or if the request names paths in it.
      key_prefix: what the keys begin with.
      names: of all inputs that are read together with this one, if there are several.
    """

    where: str
    root: str | None
    key_prefix: str
    names: Sequence[str] = ()


def refusal(error: UnclearError, tree: FolderTree, request: Request, place: Place) -> RequestError:
    """The refusal of an input whose folders are unclear, with what can be said instead."""
    return _Advisor(error, tree, request, place).refusal()


class _Advisor:
    """Finds choices for one input."""

    def __init__(self, error: UnclearError, tree: FolderTree, request: Request, place: Place) -> None:
        self._error = error
        self._tree = tree
        self._request = request
        self._place = place
        # Keys begin with the name of an input.
        self._head = "[^/]+/" if place.key_prefix else ""

    def refusal(self) -> RequestError:
        """See `refusal`."""
        choices: list[Choice] = []
        for choice in self._choices():
            if choice.settings not in [one.settings for one in choices]:
                choices.append(choice)
            if len(choices) == _MOST_CHOICES:
                break
        beside = describe_annotations(self._tree)
        known = f" (beside them is what looks like {beside})" if beside else ""
        how = _HOW_TO_LABEL if self._error.kind == "flat" else ""
        tables = list_tables(self._tree)[:_MOST_PATHS] if self._request.by_folders else []
        if tables and not any("label_column" in one.settings for one in choices):
            known += f" (tables beside them: {', '.join(tables)})"
        if self._request.spec.source in ("image_folder", "filename_pattern"):
            # A source that the request names may not fit a pattern or a table.
            choices = [dataclasses.replace(one, settings={"source": None, **one.settings}) for one in choices]
        return RequestError(f"{self._place.where}: {self._error.found}{known}{how}", choices)

    def _choices(self) -> Iterator[Choice]:
        error, kind = self._error, self._error.kind
        names = error.names
        yield from find_annotations(self._tree, self._request.spec, self._place.root)
        if kind in ("annotations", "mask files"):
            yield from self._masks()
        if self._request.spec.needs_mask:
            if kind == "annotations" and self._says_masks:
                yield from self._fit(f"without {', '.join(names)}", {"exclude": self._exclude(names)}, "")
            return
        if self._request.by_folders and kind not in ("nested", "wrapper"):
            yield from itertools.islice(find_tables(self._tree, self._request.spec, self._place.root), _MOST_TABLES)
        if kind == "fractions":
            yield from self._divide_anew()
        elif kind in ("split among classes", "containers"):
            inside = [join(base, name) for base in error.bases for name in names]
            yield from self._fit(f"without {', '.join(names)}", {"exclude": self._exclude(inside)}, _FOLDERS)
            yield from self._all_are_classes()
        elif kind == "no common class":
            if not any("/" in base for base in error.splits):
                yield from self._fit("these splits, with different classes", {"splits": _write(error.splits)}, _FOLDERS)
            if names:  # not if only `train` has other classes
                yield from self._fit(f"without {names[0]}", {"exclude": self._exclude(names)}, _FOLDERS)
        elif kind == "wrapper":
            path = names[0]
            while len(self._tree.below(path)) == 1 and not self._tree.images(path):
                path = join(path, self._tree.below(path)[0])
            if not self._tree.below(path) and "/" in path:
                path = path.rpartition("/")[0]
            if self._place.root and list(error.bases.values()) == [None]:
                yield from self._fit(f"the folders in {path} as classes", {"input": join(self._place.root, path)}, "")
            pattern = self._pattern(_depth(path))
            yield from self._fit(f"the folders in {path} as classes", {"label_pattern": pattern}, "")
            one = names[0].rpartition("/")[2]
            yield from self._fit(f"one class, {one}", {"class_names": one}, "")
        elif kind == "nested":
            yield from self._outer_or_inner()
        elif kind == "unlabelled":
            yield from self._fit(f"without {', '.join(names)}", {"exclude": self._exclude(names)}, _FOLDERS)
        else:
            if kind == "flat" and not any(error.bases) and self._names_are_classes():
                yield from self._fit("the name of each input as a class", {"label_pattern": self._input_pattern()}, "")
            yield from self._fit("the images", {}, _FOLDERS)
            yield from self._fit("the images", {}, _NAMES)
            parts = [join(base, name) for base in error.bases for name in names] if kind == "splits" else error.bases
            for part in parts if kind in ("splits", "flat") and self._place.root else ():
                if part:
                    yield from self._fit(f"the images in {part}", {"input": join(self._place.root or "", part)}, _NAMES)
            if kind == "mask files" or (kind == "splits" and len(error.others) >= len(names)):
                yield from self._all_are_classes()
        yield from self._fit("all images", {}, _UNLABELLED)
        if self._are_classes():
            yield from self._all_are_classes()

    @property
    def _says_masks(self) -> bool:
        """Whether the request says where masks are."""
        return any(getattr(self._request.spec, name) for name in MASK_SETTINGS)

    def _masks(self) -> Iterator[Choice]:
        """The images with their masks."""
        root, names = self._place.root, self._error.names
        if root is None or self._says_masks:
            return
        is_beside = self._error.kind == "mask files"
        settings = find_mask_files_by_suffix(self._tree, names[0]) if is_beside else find_masks(self._tree, names, root)
        if settings is not None:
            yield from self._fit("the images with their masks", {**settings, "layout": "segmentation"}, "")

    def _divide_anew(self) -> Iterator[Choice]:
        """The splits as they are, or the images of those with class folders, in fractions."""
        base, names = min(self._error.bases), self._error.names
        yield from self._fit("the splits as they are", {"splits": "auto"}, _FOLDERS)
        if self._place.root is None:
            pattern = self._pattern(_depth(base) + 1)
            yield from self._fit("all images divided anew", {"label_pattern": pattern}, "")
            return
        paths = [join(base, name) for name in names]
        inputs = [join(self._place.root, path) for path in paths if self._is_clear(path)]
        if inputs:
            which = "all images" if len(inputs) == len(names) else f"the images in {', '.join(inputs)}"
            yield Choice(f"{which} divided anew", {"input": inputs})

    def _is_clear(self, path: str) -> bool:
        """Whether a folder is clear as an input of its own."""
        try:
            interpret(self._tree.inside(path), Request(self._request.spec, storage.basename(path)))
        except UnclearError:
            return False
        return True

    def _outer_or_inner(self) -> Iterator[Choice]:
        """The folders as classes, or those in them, or those in one of them."""
        names = self._error.names
        base = min(self._error.bases)
        depth = _depth(base)
        inner = [name for one in names for name in self._tree.below(join(base, one))]
        shown = ", ".join(names[:2]) + (", …" if len(names) > 2 else "")
        yield from self._fit(f"the classes {shown}", {"label_pattern": self._pattern(depth)}, "")
        if any(self._tree.images(join(base, name)) for name in names):
            whole = f"{self._pattern(depth).removesuffix('[^/]+)/')}.+)/[^/]+$"
            yield from self._fit("the whole path of a folder as its class", {"label_pattern": whole}, "")
        elif inner:
            level = [join(base, name) for name in names]
            found = {storage.basename(path) for path in level}
            for _ in range(_MOST_STEPS):
                depth += 1
                level = [join(path, name) for path in level for name in self._tree.below(path)]
                found = {storage.basename(path) for path in level}
                if len(found) > 1 and not all(map(is_container, found)):
                    break
            few = sorted(found)
            shown = ", ".join(few[:2]) + (", …" if len(few) > 2 else "")
            yield from self._fit(f"the classes {shown}", {"label_pattern": self._pattern(depth)}, "")
        if len(set(inner)) < len(inner) and self._place.root and not any(self._error.bases.values()):
            one = join(base, names[0])
            yield from self._fit(f"{one} alone", {"input": join(self._place.root, one)}, _FOLDERS)

    def _all_are_classes(self) -> Iterator[Choice]:
        names = [name for base in self._error.bases for name in self._tree.below(base)]
        if 1 < len(names) <= _MOST_CLASSES and not any("," in name or name != name.strip() for name in names):
            yield from self._fit("all folders as classes", {"class_names": ",".join(sorted(set(names)))}, "")

    def _are_classes(self) -> bool:
        """Whether what looks like annotations may be classes: `mask` beside `maskless`."""
        base = min(self._error.bases)
        beside = self._tree.below(base)
        return (
            self._error.kind == "annotations"
            and set(self._error.names) <= {join(base, name) for name in beside}
            and not any(
                is_container(name) or split_in_name(name) or self._tree.below(join(base, name)) for name in beside
            )
        )

    def _names_are_classes(self) -> bool:
        """Whether the names of the inputs may be classes: not numbered, as parts are."""
        if self._request.spec.input_splits:
            return False
        words = {re.sub(r"[\d_.-]", "", name.partition(".")[0]) for name in self._place.names}
        return len(words) > 1 and not any(map(is_known, words))

    def _input_pattern(self) -> str:
        """The pattern by which the name of an input is the class: of a folder, or of an archive without extension."""
        is_archive = source_of_file(self._place.key_prefix.rstrip("/")) is not None
        return r"^(?P<label>[^/]+?)\.(t|zip)[^/]*/" if is_archive else "^(?P<label>[^/]+)/"

    def _pattern(self, depth: int) -> str:
        """The pattern by which the class is the folder at a depth below the input."""
        return f"^{self._head}{'[^/]+/' * depth}(?P<label>[^/]+)/"

    def _exclude(self, paths: Sequence[str]) -> list[str]:
        """The setting `exclude` with some folders more."""
        spec = self._request.spec
        head = "*/" if self._place.key_prefix else ""
        return [*spec.exclude, *_globs(paths, head, self._tree)]

    # What makes a choice clear

    def _fit(self, meaning: str, settings: Mapping[str, Any], goal: str) -> Iterator[Choice]:
        """The choice with these settings, and with what it takes to reach a goal; nothing if they do not."""
        fitted: dict[str, Any] | None = dict(settings)
        for _ in range(_MOST_STEPS):
            assert fitted is not None
            tree, request = self._apply(fitted)
            try:
                roles, _ = interpret(tree, request)
            except UnclearError as error:
                fitted = self._mend(fitted, error, tree, request, goal)
                if fitted is None:
                    return
                continue
            if goal == _UNLABELLED and request.spec.needs_label:
                fitted = {**fitted, "layout": "image"}
                continue
            if goal == _NAMES and "label_pattern" not in fitted:
                return
            if goal == _FOLDERS and self._error.kind == "annotations" and not _look_like_classes(tree, roles.bases):
                return
            if fitted and any(map(tree.total, roles.bases)) and self._has_labels(tree, request):
                if self._error.kind in ("annotations", "mask files"):
                    meaning = meaning.replace("all images", "the images but not their annotations")
                if "splits" in fitted and meaning in ("the images", "all images"):
                    meaning = f"the images in {', '.join(read_splits(fitted['splits']).folders or ())}"
                yield Choice(f"{meaning}, {goal}" if goal else meaning, fitted)
            return

    def _mend(
        self, settings: dict[str, Any], error: UnclearError, tree: FolderTree, request: Request, goal: str
    ) -> dict[str, Any] | None:
        """Settings that answer one question more; None if they would miss the goal."""
        if error.kind in ("annotations", "mask files"):
            return self._without_annotations(settings, error, tree, request)
        if error.kind in ("splits", "no common class") and "splits" not in settings:
            base, splits = min(error.bases), error.splits
            if goal == _FOLDERS and error.kind == "splits":
                splits = {name: split for name, split in splits.items() if _has_classes(tree, join(base, name))}
            if not splits or (base and error.kind == "splits" and not self._place.root):
                return None
            moved = {"input": join(self._input(settings), base)} if base and error.kind == "splits" else {}
            return {**settings, **moved, "splits": _write(splits)}
        if goal == _UNLABELLED and request.spec.needs_label:
            return {**settings, "layout": "image"}
        if goal == _FOLDERS and error.kind == "unlabelled" and "splits" in settings:
            named = read_splits(settings["splits"]).folders or {}
            kept = {
                one: split
                for one, split in named.items()
                if not any(f"{n}/".startswith(f"{one}/") for n in error.names)
            }
            return {**settings, "splits": _write(kept)} if kept else None
        if goal == _NAMES and error.kind == "flat":
            pattern = find_name_pattern(tree.names(error.bases))
            return {**settings, "label_pattern": pattern} if pattern else None
        return None

    def _without_annotations(
        self, settings: dict[str, Any], error: UnclearError, tree: FolderTree, request: Request
    ) -> dict[str, Any] | None:
        base = min(error.bases)
        if error.kind == "annotations" and self._place.root and not tree.images(base):
            beside = [name for name in tree.below(base) if not any(one == join(base, name) for one in error.names)]
            inner = [name for name in error.names if name.rpartition("/")[0] != base]
            if len(beside) == 1 and not inner:
                return {**settings, "input": join(self._input(settings), join(base, beside[0]))}
        head = "*/" if self._place.key_prefix else ""
        globs = [f"*{error.names[0]}*"] if error.kind == "mask files" else _globs(error.names, head, tree)
        if len(globs) > _MOST_GLOBS:
            return None
        return {**settings, "exclude": [*request.spec.exclude, *globs]}

    def _input(self, settings: Mapping[str, Any]) -> str:
        return str(settings.get("input", self._place.root))

    def _apply(self, settings: Mapping[str, Any]) -> tuple[FolderTree, Request]:
        """The tree and the request as they are with some settings more."""
        tree, spec, name = self._tree, self._request.spec, self._request.name
        if "input" in settings:
            below = settings["input"][len(self._place.root or "") :].strip("/")
            tree, name = tree.inside(below), storage.basename(below) or name
        if "splits" in settings:
            folders = read_splits(settings["splits"]).folders
            spec = dataclasses.replace(spec, split_folders=folders, splits_auto=folders is None)
            if folders is not None:
                tree = tree.within(folders)
        if "class_names" in settings:
            spec = dataclasses.replace(spec, class_names=tuple(settings["class_names"].split(",")))
        if "label_pattern" in settings:
            spec = dataclasses.replace(spec, label_pattern=settings["label_pattern"])
        if "mask_root" in settings:
            masks = tuple(f"{path}/" for path in self._error.names)
            tree = tree.select(lambda path: not path.startswith(masks))
        elif "mask_suffix" in settings:
            suffix = settings["mask_suffix"]
            tree = tree.select(lambda path: not posixpath.splitext(path)[0].endswith(suffix))
        if "layout" in settings:
            spec = dataclasses.replace(spec, needs_label=False)
        if "exclude" in settings:
            spec = dataclasses.replace(spec, exclude=tuple(settings["exclude"]))
            tree = tree.select(lambda path: spec.selection.skips_path(self._place.key_prefix + path) is None)
        return tree, Request(spec, name)

    def _has_labels(self, tree: FolderTree, request: Request) -> bool:
        """Whether a pattern finds labels in the names that are known."""
        pattern = request.spec.label_pattern
        if pattern is None or not request.spec.needs_label:
            return True
        keys = (join(path, name) for path, folder in tree.walk() for _, name in folder.names)
        return any(re.search(pattern, self._place.key_prefix + key) for key in keys)


def find_name_pattern(names: Sequence[str]) -> str | None:
    """The pattern that finds the class in the names of files, if these have classes; None if they look like numbers."""
    for pattern in _NAME_PATTERNS:
        labels = [found["label"] for name in names if (found := re.search(pattern, name))]
        classes = set(labels)
        if len(labels) < len(names) or not 2 <= len(classes) <= 0.75 * len(names):
            continue
        if not any(one.lower() in _NO_CLASSES or is_known(one) for one in classes):
            return pattern
    return None


def _look_like_classes(tree: FolderTree, bases: Iterable[str]) -> bool:
    """Whether images without their masks have several classes, and not a folder for each, or one for all."""
    classes = {name for base in bases for name in tree.below(base)}
    return len(classes) > 1 and any(folder.images > 1 for _, folder in tree.walk())


def _depth(path: str) -> int:
    """Number of folders in a path."""
    return path.count("/") + 1 if path else 0


def _has_classes(tree: FolderTree, path: str) -> bool:
    return bool(tree.below(path)) and not tree.images(path)


def _globs(paths: Sequence[str], head: str, tree: FolderTree) -> list[str]:
    """Globs of all that is in some folders; of very many, one for those of the same name and depth, if it fits."""
    if len(paths) > _MOST_PATHS:
        kinds = dict.fromkeys((path.count("/"), path.rpartition("/")[2]) for path in paths)
        folders = [path.split("/") for path, folder in tree.walk() if folder.images]
        found = {"/".join(parts[: depth + 1]) for depth, _ in kinds for parts in folders if len(parts) > depth}
        if {path for path in found if (path.count("/"), path.rpartition("/")[2]) in kinds} == set(paths):
            return [f"{head}{'*/' * depth}{glob.escape(name)}/**" for depth, name in kinds]
    return [f"{head}{glob.escape(path)}/**" for path in paths]


def _write(splits: Mapping[str, str | None]) -> str:
    return ",".join(f"{split}={folder}" for folder, split in splits.items())
