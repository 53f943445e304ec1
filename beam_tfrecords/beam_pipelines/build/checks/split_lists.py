"""Finds lists of splits beside an input that nothing reads."""

from __future__ import annotations

import glob
import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.detect.row_sidecars import group_by_split, split_of_list
from beam_tfrecords.transforms.sources.detect.trial import suppress_refusals
from beam_tfrecords.transforms.sources.inputs import folder_of_input, name_inputs
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.splits import DEFAULT_SPLIT, split_of_folder

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

_EXTENSIONS, _JSON = (".txt", ".csv", ".tsv"), ".json"
_BETWEEN_CELLS = re.compile(r"[\s,;]+")
_FOLDER_OF_LISTS = re.compile(r"sets?$|splits?$|lists?$", re.IGNORECASE)
# Numbers of files of one extension in a folder, of bytes of a file, and of samples to find in them.
_MOST_FILES, _MOST_BYTES, _MOST_SAMPLES = 32, 64 << 20, 200


def check_split_lists(spec: BuildSpec, source: Source, listing: Listing) -> None:
    """Checks that no lists beside the input say the splits of its images.

    Raises:
      RequestError: such lists name the images; offers to read them.
    """
    inputs = name_inputs(spec.input)
    says_splits = bool(inputs.splits) or not spec.splits.are_auto or bool(spec.join)
    if says_splits or len(listing.samples) > 1:
        return
    from beam_tfrecords.transforms.listing.listing import read_light

    first = itertools.chain.from_iterable(refs.keys for refs in read_light(listing))
    keys = set(map(_stem, itertools.islice(first, _MOST_SAMPLES)))
    where = f"`input={', '.join(spec.input)}`"
    whole = Suggestion("all images as one split", {"splits": f"{DEFAULT_SPLIT}=1"})
    # Pascal VOC reads the lists in its folders.
    folders = _find_folders([*map(folder_of_input, inputs.paths)], has_lists=source.name != "voc")
    for extension in _EXTENSIONS:
        paths = _find_files(folders, extension, without=inputs.paths)
        lists = {path: split for path in next(iter(group_by_split(paths)), []) if (split := split_of_list(path))}
        if len(lists) > 1 and keys <= {name for path in lists for name in _find_names(path)}:
            shown = ", ".join(printable(storage.basename(path)) for path in lists)
            joined = {"join": [f"{split}={path}" for path, split in lists.items()]}
            raise RequestError(
                f"{where}: {shown} beside the images have their names, and may be their splits",
                [Suggestion("the splits of these lists", joined), whole],
                code="unread_lists",
            )
    for path in _find_files(folders, _JSON, without=inputs.paths):
        if keys <= _find_names_in_json(path):
            raise RequestError(
                f"{where}: {printable(storage.basename(path))} beside the images has their names under the names of "
                "splits; write the names of each split into a list, and name the lists in `join`, such as "
                "`join=train=train.txt`",
                [whole],
                code="unread_lists",
            )


def _find_folders(inputs: Sequence[str], *, has_lists: bool) -> list[str]:
    """Returns the folders of an input and those around these, also folders of lists in them."""
    folders = dict.fromkeys([*inputs, *map(storage.dirname, inputs)])
    for folder in [*folders] if has_lists else ():
        with suppress_refusals():
            for name in map(storage.basename, storage.list_folders(folder)):
                if _FOLDER_OF_LISTS.search(name):
                    path = storage.join(folder, name)
                    inner = map(storage.basename, storage.list_folders(path)[:_MOST_FILES])
                    folders |= dict.fromkeys([path, *(storage.join(path, one) for one in inner)])
    return [*folders]


def _find_files(folders: Sequence[str], extension: str, *, without: Sequence[str]) -> list[str]:
    """Returns the files of an extension directly in some folders."""
    paths = list[str]()
    for folder in folders:
        with suppress_refusals():
            found = storage.list_files(f"{glob.escape(folder)}/*{extension}", limit=_MOST_FILES)
            paths += [one.path for one in found if one.size <= _MOST_BYTES and one.path not in without]
    return paths


def _find_names(path: str) -> Iterator[str]:
    """Yields the lines and cells of a list or table without folders and extensions."""
    for line in storage.read_bytes(path).decode(errors="replace").splitlines():
        for cell in (line, *_BETWEEN_CELLS.split(line)):
            yield _stem(cell.strip("\"' "))


def _find_names_in_json(path: str) -> set[str]:
    """Returns the names in an object of lists, likewise, if its keys are names of splits; else an empty set."""
    try:
        found = read_json(storage.read_bytes(path))
    except (ValueError, RecursionError):
        return set()
    lists = found if isinstance(found, dict) else {}
    if len(lists) < 2 or not all(split_of_folder(name) and isinstance(names, list) for name, names in lists.items()):
        return set()
    return {_stem(str(name)) for names in lists.values() for name in names}


def _stem(name: str) -> str:
    return posixpath.splitext(posixpath.basename(name))[0]
