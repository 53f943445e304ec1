"""Reads YOLO data files: the classes, and the image folders of each split."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.transforms.class_list import list_classes
from beam_tfrecords.transforms.sources.annotated.yolo_labels import read_text
from beam_tfrecords.transforms.sources.class_files import YOLO_LIST, read_classes
from beam_tfrecords.transforms.sources.detect.names import is_mask_folder
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import has_extension, printable, skipped_kind
from beam_tfrecords.transforms.sources.path_rule import resolve, shorten
from beam_tfrecords.transforms.splits import DEFAULT_SPLIT, SPLIT_NAMES, split_of_folder, split_words

DARKNET = ".data"
_SPLITS = ("train", "val", "valid", "validation", "test")
# The number of classes is that of the names.
_KEYS = frozenset({*_SPLITS, "path", "names", "kpt_shape", "nc", "classes"})
# A path from the root of a file system, of Windows too.
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[/\\]")


@dataclasses.dataclass(frozen=True)
class YoloData:
    """The contents of a data file.

    Attributes:
      root: folder that the paths are relative to.
      splits: split -> folders of images, and files that list images.
      names: class number -> name; empty without a list of classes, so that the numbers are the classes.
      keypoints: number of keypoint values in a row after the box.
      has_visibility: whether the visibility of a keypoint follows its x and y.
      file: path of the data file; "" without one.
      others: keys of the data file that are not read.
    """

    root: str
    splits: Mapping[str, list[str]]
    names: Mapping[int, str]
    keypoints: int
    has_visibility: bool = True
    file: str = ""
    others: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class YoloPaths:
    """The location of a data file, and the folders that it may name.

    Attributes:
      input: path of the data file, or of its folder.
      settings: settings of the image paths.
    """

    input: str
    settings: PathSettings

    @functools.cached_property
    def folder(self) -> str:
        """Folder of the data file, or the input if it is a folder."""
        return self.input if storage.is_folder(self.input) else storage.dirname(self.input)

    @property
    def roots(self) -> tuple[str, ...]:
        """Folders of the request; paths in files must stay inside them."""
        return (*self.settings.image_root, self.folder)

    def lead(self, path: str, base: str) -> str:
        """Resolves a path in a file.

        Args:
          path: path in the file.
          base: folder that a relative path starts from.

        Raises:
          SampleError: as `resolve`, or the path is a URL, which has no label file.
        """
        word = path.removeprefix("./").rstrip("/") or path
        if storage.is_web(word):
            raise SampleError(
                Stage.LIST, FailureReason.UNREADABLE, f"a URL, where files have no labels: {shorten(path)}"
            )
        root = next((one for one in self.roots if storage.is_inside(base, one)), base)
        outside = self.settings.allow_outside_root
        return base if word == "." else resolve(word, base=base, root=root, allow_outside_root=outside)


def read_data(places: YoloPaths) -> YoloData:
    """Reads a data file, a folder with a data file, or a folder with images and a class list.

    Raises:
      RequestError: the input is not in YOLO's format, or a file or folder that it names does not exist.
    """
    path = places.input
    if storage.is_folder(path):
        found = _data_file_in(path)
        if found is None:
            return _read_folder(path)
        path = found
    shown = quote_input(path)
    data = _read_darknet(path) if path.lower().endswith(DARKNET) else _read_yaml(path)
    if not any(data.get(word) for word in _SPLITS):
        raise RequestError(
            f"{shown} is not a data file of YOLO: expected 'train', 'val' or 'test' with a folder of images or a file "
            "that lists them, and 'names'",
            code="invalid_file",
        )
    root = _find_root(data, places)
    names = data.get("names")
    if isinstance(names, str):
        names = read_classes(_find(names, root, places, is_file=True)).by_number
    else:
        names = _read_names(names, shown)
    splits: dict[str, list[str]] = {}
    for word in _SPLITS:
        values = data.get(word) or []
        values = values if isinstance(values, list) else [values]
        if not all(isinstance(one, str) and "\0" not in one for one in values):
            raise RequestError(
                f"{shown}: {word!r} is not a path; expected a folder, a file that lists images, or several",
                code="invalid_file",
            )
        if paths := [_find(one, root, places) for one in values]:
            splits.setdefault(SPLIT_NAMES[word], []).extend(paths)
    points, size = _read_shape(data)
    others = [str(key) for key in data if key not in _KEYS]
    return YoloData(root, splits, names, points * size, has_visibility=size == 3, file=path, others=others)


def without_folders(path: str, count: int) -> str:
    """Removes some leading folders from a path."""
    return "/".join(path.removeprefix("/").split("/")[count:]) if count else path


def _read_yaml(path: str) -> dict[str, Any]:
    try:
        data = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, RecursionError, SampleError) as error:
        why = error.detail if isinstance(error, SampleError) else " ".join(str(error).split())
        raise RequestError(f"{quote_input(path)} cannot be read as YAML: {why}", code="invalid_file") from error
    return data if isinstance(data, dict) else {}


def _read_darknet(path: str) -> dict[str, Any]:
    """Reads a Darknet data file: `train = train.txt`, `valid = test.txt`, `names = obj.names`."""
    try:
        pairs = (line.partition("=") for line in read_text(path).splitlines())
    except SampleError as error:
        raise RequestError(f"{quote_input(path)} cannot be read: {error.detail}", code="invalid_file") from error
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}


def _data_file_in(folder: str) -> str | None:
    """Returns the data file directly in a folder; None if there is none."""
    start = len(folder.rstrip("/")) + 1
    files = [entry.path for entry in storage.list_files(folder, literal=True) if "/" not in entry.path[start:]]
    found = [path for path in sorted(files) if path.lower().endswith((".yaml", ".yml", DARKNET)) and _is_data(path)]
    if len(found) > 1:
        raise RequestError(
            f"{quote_input(folder)} has several data files",
            [Reading(storage.basename(path), {"input": path}) for path in found],
            code="several_data_files",
        )
    return next(iter(found), None)


def _is_data(path: str) -> bool:
    with contextlib.suppress(RequestError):
        data = _read_darknet(path) if path.lower().endswith(DARKNET) else _read_yaml(path)
        return bool(data.get("names")) and any(data.get(word) for word in _SPLITS)
    return False


def _read_folder(folder: str) -> YoloData:
    """Reads image folders, with the class list next to the images or labels if there is one."""
    root = folder.rstrip("/")
    folders: dict[str, str | None] = {}
    lists = []
    for entry in storage.list_files(root, literal=True):
        path, _, name = entry.path[len(root) + 1 :].rpartition("/")
        if YOLO_LIST.fullmatch(name):
            lists.append(entry.path)
        elif skipped_kind(name) is None and has_extension(name):
            folders[path] = next(iter(split_words(path).values()), None)
    # Masks have the names, and so the labels, of their images.
    others = {path: split for path, split in folders.items() if not any(map(is_mask_folder, path.split("/")))}
    folders = others or folders
    names = {read_classes(path) for path in sorted(lists)}
    shown = quote_input(folder)
    if len(names) > 1:
        raise RequestError(
            f"{shown} has lists of different classes: {', '.join(sorted(lists)[:3])}; expected a data file of YOLO, or "
            "classes.txt with a name in each line",
            code="class_names_differ",
        )
    if None in folders.values() and any(folders.values()):
        beside = ", ".join(sorted(printable(path) or "the top" for path, split in folders.items() if not split)[:3])
        raise RequestError(
            f"{shown} has images outside its split folders ({beside}); move them, or write data.yaml",
            code="images_outside_splits",
        )
    splits: dict[str, list[str]] = {}
    for path, split in sorted(folders.items()):
        known = splits.setdefault(split or DEFAULT_SPLIT, [])
        found = storage.join(root, path) if path else root
        if not any(found.startswith(f"{other}/") for other in known[-1:]):
            known.append(found)
    return YoloData(root, splits, names.pop().by_number if names else {}, 0)


def _read_names(found: Any, shown: str) -> Mapping[int, str]:
    if not found or not isinstance(found, (dict, list)):
        raise RequestError(
            f"{shown}: 'names' is missing; expected the class names, as a list or as number: name",
            code="missing_class_names",
        )
    try:
        return list_classes(found).by_number
    except ValueError as error:
        raise RequestError(f"{shown}: 'names': {error}", code="invalid_class_name") from error


def _read_shape(data: Mapping[str, Any]) -> tuple[int, int]:
    """Returns `kpt_shape` of a pose dataset: the number of keypoints in a row after the box, and 2 or 3 values each."""
    shape = data.get("kpt_shape")
    is_shape = isinstance(shape, list) and len(shape) == 2 and all(type(side) is int for side in shape)
    return (shape[0], shape[1]) if is_shape and shape and shape[1] in (2, 3) else (0, 3)


def _find_root(data: Mapping[str, Any], places: YoloPaths) -> str:
    """Returns the folder that the splits are relative to: `image_root`, the file's `path`, or the file's folder."""
    own = places.folder
    if places.settings.image_root:
        return places.settings.image_root[0]
    path = data.get("path")
    if not isinstance(path, str):
        return own
    try:
        named = places.lead(path, own)
    except SampleError:
        if storage.has_scheme(path) or storage.is_folder(storage.join(own, path)):
            raise _refuse(path, [], places, leads_outside=True) from None
        return own
    # For Ultralytics the path is relative to a folder in its own settings, so it may not exist here.
    return named if storage.is_folder(named) else own


def _find(path: str, root: str, places: YoloPaths, *, is_file: bool = False) -> str:
    """Finds a folder or list that the data file names; paths of Darknet are relative to its working directory."""
    # Roboflow writes `../train/images` for a folder `train` next to the file, and Ultralytics accepts this.
    words = [path, path[3:]] if path.startswith("../") else [path]
    if is_file or places.input.lower().endswith(DARKNET):
        words = [without_folders(path, count) for count in range(path.count("/") + 1)]
    elif _ABSOLUTE.match(path):
        # The leading folders are those of another machine; a single one, such as images, may be that of any split.
        *folders, last = path.replace("\\", "/").strip("/").split("/")
        words += ["/".join([*folders[count:], last]) for count in range(len(folders))]
        words += [last] if split_of_folder(last) else []
    bases = (root, places.folder)
    tried = dict[str, None]()
    leads_outside = False
    for base, word in itertools.product(bases, words):
        try:
            tried[places.lead(word, base)] = None
        except SampleError:
            leads_outside = True
    for one in tried:
        if (not is_file and storage.is_folder(one)) or ((is_file or is_list(one)) and storage.is_file(one)):
            return one
    raise _refuse(path, tried, places, leads_outside=leads_outside)


def is_list(path: str) -> bool:
    """Whether a path names a file that lists images."""
    return path.lower().endswith(".txt")


def _refuse(path: str, tried: Iterable[str], places: YoloPaths, *, leads_outside: bool) -> RequestError:
    """Returns the error for a data file with a path that does not exist, or leads outside the request's folders."""
    problems = [f"there is no {' or '.join(map(printable, tried))}"] if tried else []
    problems += [f"files outside {' and '.join(dict.fromkeys(places.roots))} are not read"] if leads_outside else []
    # Offers nothing, because trying it would access files outside the allowed folders.
    either = ", or set `allow_outside_root` to read every file that it names" if leads_outside else ""
    return RequestError(
        f"{quote_input(places.input)} names {shorten(path)}, but {', and '.join(problems)}; name its folder "
        f"in `image_root`{either}",
        code="outside_root" if leads_outside else "not_found",
    )
