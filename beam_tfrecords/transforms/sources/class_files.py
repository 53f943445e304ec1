"""Finds and reads files of class names beside an input."""

from __future__ import annotations

import dataclasses
import glob
import re
from collections.abc import Collection, Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import LABEL_MAP
from beam_tfrecords.errors import RequestError
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.class_list import ClassList, parse_class_file
from beam_tfrecords.transforms.sources.inputs import Inputs, folder_of_input, quote_input

_MOST_BYTES = 16 << 20
_THREADS = 16
# Usual names of files of class names, and names that files of other contents have too.
_NAMES = (
    "classes.txt", "classes.names", "classes.json", "classes.csv", "classes.yaml", "class_names.txt",
    "class_names.json", "class_names.csv", "class_list.txt", "class_list.csv", "classnames.txt", "obj.names",
    "class_indices.json", "class_to_idx.json", "idx_to_class.json", "label2id.json", "id2label.json",
    "cat_to_name.json", "label_map.txt", "label_map.json", LABEL_MAP,
)  # fmt: skip
_SHARED = (
    "labels.txt", "labels.json", "label_names.txt", "names.txt", "names.json", "names.yml", "names.yaml",
    "categories.txt", "categories.json", "data.yaml",
)  # fmt: skip
# The label maps of the Object Detection API may have any name.
_LABEL_MAPS = ".pbtxt"
# Class lists of labelImg, CVAT and Roboflow, in folders without a data file.
YOLO_LIST = re.compile(r"(?:class(?:es)?|_darknet\.labels|predefined_classes|[^/]*\.names)(?:\.txt)?", re.IGNORECASE)
# Extensions of other files that may name classes; those without numbers are lists of anything, if they are lines.
_NUMBERED, _WRAPPED = (".csv", ".tsv", ".txt", ".pbtxt"), (".json", ".yaml", ".yml")
# Numbers of files to look at in a folder, and of bytes of one.
_MOST_LISTED, _MOST_SMALL = 200, 64 << 10
# In a bucket, each name costs a request in every build.
_REMOTE = ("classes.txt", "class_names.txt", "class_indices.json", "labels.txt", LABEL_MAP)


@dataclasses.dataclass(frozen=True)
class FoundClasses:
    """Class names that an input has beside its samples.

    Attributes:
      path: the file, which `class_names` can name.
      classes: the classes; None if they cannot be read.
      problem: why the classes cannot be read.
    """

    path: str
    classes: ClassList | None
    problem: str = ""

    @property
    def where(self) -> str:
        """Name of the file, for messages."""
        return storage.basename(self.path)


def is_class_file(name: str) -> bool:
    """Whether a file has a usual name of a file of class names, or is a label map."""
    return name in _NAMES or name in _SHARED or name.endswith(_LABEL_MAPS)


def read_class_file(path: str, *, are_numbered: bool = False) -> ClassList:
    """Reads a file of class names of bounded size; `are_numbered` is as in `parse_class_file`.

    Raises:
      ValueError: it is too large, or in no known form.
    """
    with storage.open_read(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB; expected a file of class names")
    return parse_class_file(data, storage.basename(path), are_numbered=are_numbered)


def read_classes(path: str, *, are_numbered: bool = False) -> ClassList:
    """Reads a file of class names that an input needs; see `read_class_file`.

    Raises:
      RequestError: the file cannot be read as class names.
    """
    try:
        return read_class_file(path, are_numbered=are_numbered)
    except ValueError as error:
        raise RequestError(
            f"{quote_input(path)} cannot be read as names of classes: {error}", code="invalid_file"
        ) from error


def find_class_files(inputs: Inputs) -> list[FoundClasses]:
    """Reads the files of class names in the folders of an input, or else beside these folders.

    In a bucket, looks only for the most usual names, in the folders of the input.
    """
    inside, beside = _folders(inputs)
    is_remote = any(map(storage.has_scheme, inputs.paths))
    names = _REMOTE if is_remote else (*_NAMES, *_SHARED)
    for folders in (inside, [] if is_remote else beside):
        paths = [storage.join(folder, name) for folder in folders for name in names]
        there = [path for path, is_there in zip(paths, _are_files(paths), strict=True) if is_there]
        maps = [] if is_remote else [path for folder in folders for path in _list_label_maps(folder)]
        if found := list(_read_each([path for path in dict.fromkeys([*there, *maps]) if path not in inputs.paths])):
            return found
    return []


def find_lists_of_numbers(inputs: Inputs, numbers: Collection[int]) -> list[str]:
    """Returns the files beside an input that have a name for each of some numbers, whatever they are called."""
    files: list[storage.FileEntry] = []
    for folder in _folders(inputs)[0]:
        try:
            files += storage.list_files(f"{glob.escape(folder)}/*", limit=_MOST_LISTED)
        except OSError as error:
            if storage.is_service_fault(error):
                raise
    small = (one.path for one in files if 0 < one.size <= _MOST_SMALL and one.path not in inputs.paths)
    named = (path for path in small if path.lower().endswith((*_NUMBERED, *_WRAPPED)))
    paths = [path for path in named if not is_class_file(storage.basename(path))]
    found = []
    for path, classes in ((one.path, one.classes) for one in _read_each(sorted(paths)) if one.classes):
        known = classes.numbers or (range(len(classes)) if path.lower().endswith(_WRAPPED) else ())
        found += [path] if {*numbers} <= {*known} else []
    return found


def _list_label_maps(folder: str) -> list[str]:
    files = storage.list_files(f"{glob.escape(folder)}/*{_LABEL_MAPS}", limit=_MOST_LISTED)
    return sorted(one.path for one in files)


def _folders(inputs: Inputs) -> tuple[Sequence[str], Sequence[str]]:
    """Returns the folders of the inputs, and the folders that contain these."""
    around = map(folder_of_input, inputs.paths)
    inside = list(dict.fromkeys(one.rstrip("/") if storage.is_folder(one) else storage.dirname(one) for one in around))
    beside = [storage.dirname(folder) for folder in inside if not storage.has_scheme(folder)]
    return inside, [folder for folder in dict.fromkeys(beside) if folder and folder not in inside]


def _are_files(paths: Sequence[str]) -> Iterator[bool]:
    if paths and storage.has_scheme(paths[0]):
        return map_in_threads(storage.is_file, paths, threads=_THREADS)
    return map(storage.is_file, paths)


def _read_each(paths: Sequence[str]) -> Iterator[FoundClasses]:
    for path in paths:
        try:
            yield FoundClasses(path, read_class_file(path))
        except ValueError as error:
            if storage.basename(path) not in _SHARED:
                yield FoundClasses(path, None, str(error))
        except OSError as error:
            if storage.is_service_fault(error):
                raise
            yield FoundClasses(path, None, str(error))
