"""Finds the files of an input of records, which has one dataset rather than several datasets or versions."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import is_dataset
from beam_tfrecords.dataset.files import DATASET_INFO, LATEST, MANIFEST
from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.inputs import (
    Inputs,
    key_prefixes,
    names_several,
    quote_input,
    require_utf8,
    splits_of_names,
)
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.records.folder_metadata import find_described
from beam_tfrecords.transforms.sources.records.record_files import (
    RecordFiles,
    choose_evenly,
    count_files,
    find_record_files,
    read_first_records,
)
from beam_tfrecords.transforms.sources.selection import Selection
from beam_tfrecords.transforms.sources.tables.table import FirstRows

_VERSION = re.compile(r"(?:v|ver|version)[-_.]?\d+(?:[._]\d+)*|\d+\.\d+\.\d+", re.IGNORECASE)
# A folder of TFX's examples has such a folder for each split.
_SPLIT_FOLDER = re.compile(r"Split-.+")
_SIZE = re.compile(r"\d+x\d+")
_MOST_SHOWN = 5
# Files whose first records are compared, and records of each.
_FILES, _LOOKED = 8, 4


def find_files_of_records(inputs: Inputs, selection: Selection) -> tuple[list[Partition], set[str]]:
    """Returns the files, and the folders that may have metadata.

    Raises:
      RequestError: an input has no such file, or has several datasets.
    """
    files: list[Partition] = []
    described: set[str] = set()
    for path, prefix in zip(inputs.paths, key_prefixes(inputs.paths), strict=True):
        found = find_record_files(path)
        if not found.files:
            others = f"; it has {count_files(found.others)}" if found.others else ""
            raise RequestError(
                f"{quote_input(path)}: there is no TFRecord file in it, such as x.tfrecord-00000-of-00001{others}",
                code="not_found",
            )
        entries = [*found.files.values()]
        for entry in entries:
            require_utf8(entry.path)
        is_folder = found.root == path
        # A glob or a folder may have more files later.
        own = (
            [f"{name}/" for name in found.files]
            if is_folder
            else key_prefixes([one.path for one in entries], always=names_several(path))
        )
        keys = [prefix + key for key in own]
        # Files that the request leaves out are not part of the choice of a dataset.
        named = zip(found.files, keys, strict=True)
        _check_one_dataset(
            path, found, [name for name, key in named if not selection.skips_path(key.removesuffix("/"))]
        )
        split = inputs.splits.get(path)
        files += [Partition.of(entry, key_prefix=key, split=split) for key, entry in zip(keys, entries, strict=True)]
        folders = {storage.dirname(entry.path) for entry in entries}
        described |= folders & find_described(found.root, found.others) if is_folder else folders
    return files, described


def read_first_of(files: Sequence[Partition]) -> FirstRows:
    """Reads the first records of the file with the most features; of several, of the first one.

    The records of some splits have no label. Spark writes empty files, and others may be damaged.

    Raises:
      RequestError: no file has a record that can be read.
    """
    errors: list[tuple[str, SampleError]] = []
    richest: Partition | None = None
    most = 0
    for place, file in enumerate(dict.fromkeys([*choose_evenly(files, _FILES), *files])):
        if place >= _FILES and richest:
            break
        try:
            found = read_first_records(file, most=_LOOKED)
        except SampleError as error:
            errors.append((file.uri, error))
            continue
        if len(found.columns) > most:
            richest, most = file, len(found.columns)
    if richest:
        return read_first_records(richest)
    path, first = next((one for one in errors if one[1].reason is not FailureReason.EMPTY), errors[0])
    raise RequestError(
        f"{quote_input(path)} is not a TFRecord file of tf.train.Example: {first.detail}", code="invalid_file"
    ) from first


def _check_one_dataset(path: str, found: RecordFiles, files: Sequence[str]) -> None:
    """Checks that the files below an input are of one dataset.

    Datasets are folders with the metadata of TFDS, TFX's folders of examples, versions, and folders of the same files
    that differ in the size of the images.

    Args:
      path: the input.
      found: all files of the input.
      files: paths below the input of the files that are read.

    Raises:
      RequestError: the files are of several datasets, or beam-tfrecords has written one of these.
    """
    siblings = _group(files, lambda name: "" if _VERSION.fullmatch(name) else None)
    versions = [_newest_first(folders) for folders in siblings.values() if folders[1:]]
    sizes = [one for one in _group(files, lambda name: _SIZE.sub("", name)).values() if one[1:]]
    sizes = [folders for folders in sizes if _are_copies(folders, files)]
    datasets = {folder for folders in (*versions, *sizes) for folder in folders}
    datasets |= {parent for parent, _ in _group(files, lambda name: "" if _SPLIT_FOLDER.fullmatch(name) else None)}
    datasets |= {_folder(other) for other in found.others if storage.basename(other) == DATASET_INFO}
    ours = find_ours(found)
    used = _newest_first({_dataset_of(file, datasets, ours) for file in files})
    if len(used) < 2 and ours.isdisjoint(used):
        return
    named = [folder for folder in used if folder]
    suggestions = [Reading(f"{folder} alone", {"input": storage.join(found.root, folder)}) for folder in named]
    older = {folder for folders in versions for folder in folders[1:]}
    if len(versions) > 1 and "" not in used:
        newest = [storage.join(found.root, folder) for folder in used if folder not in older]
        suggestions.insert(0, Reading("the newest version of each", {"input": newest}))
    if "" in used:
        suggestions.append(Reading("the files outside of them", {"exclude": named}))
    elif not (versions or sizes or ours):
        suggestions.append(Reading("all of them", {"input": [storage.join(found.root, folder) for folder in used]}))
    outside = ", and files outside of them" if "" in used else ""
    raise RequestError(
        f"{quote_input(path)} is a folder of other datasets or versions of TFRecord files ({_show(named)})"
        f"{outside}; name the one that is meant",
        suggestions,
        code="several_datasets",
    )


def find_ours(found: RecordFiles) -> set[str]:
    """Returns the folders below an input that are datasets of beam-tfrecords, with all of their versions."""
    marked = {_folder(other) for other in found.others if storage.basename(other) in (MANIFEST, LATEST)}
    ours = {folder for folder in marked if folder and is_dataset(storage.join(found.root, folder))}
    return {folder for folder in ours if not any(folder.startswith(f"{other}/") for other in ours)}


def _show(folders: Sequence[str]) -> str:
    """Returns the names of the first folders, for a message."""
    return ", ".join(map(printable, folders[:_MOST_SHOWN])) + (", …" if len(folders) > _MOST_SHOWN else "")


def _group(files: Iterable[str], kind_of: Callable[[str], str | None]) -> dict[tuple[str, str], list[str]]:
    """Returns (folder, kind) -> the folders in it of this kind; `kind_of` takes the name of a folder."""
    folders = {_folder(file)[:end] for file in files for end in _ends(_folder(file))}
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for folder in sorted(folders):
        kind = kind_of(storage.basename(folder))
        if kind is not None:
            found[_folder(folder), kind].append(folder)
    return found


def _are_copies(folders: Sequence[str], files: Sequence[str]) -> bool:
    """Whether the files of several folders have the same names, apart from image sizes in the names."""
    names = [{_SIZE.sub("", file[len(one) :]) for file in files if file.startswith(f"{one}/")} for one in folders]
    return all(one == names[0] for one in names)


def _ends(folder: str) -> Iterator[int]:
    """Yields the lengths of the paths of a folder and of the folders around it, the outermost first."""
    return (match.end() for match in re.finditer(r"[^/]+", folder))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _dataset_of(file: str, datasets: Container[str], ours: Container[str]) -> str:
    """Returns the dataset that a file is in: the outermost of ours, else the innermost one, else ""."""
    folder = _folder(file)
    around = [folder[:end] for end in _ends(folder)]
    inner = next((one for one in reversed(around) if one in datasets), "")
    return next((one for one in around if one in ours), inner)


def _newest_first(folders: Iterable[str]) -> list[str]:
    """Sorts folders by the folder around them, and then by the numbers in their names, the largest first."""
    by_number = sorted(sorted(folders), key=lambda one: _numbers(storage.basename(one)), reverse=True)
    return sorted(by_number, key=_folder)


def _numbers(name: str) -> list[int]:
    return [*map(int, re.findall(r"\d+", name))]


_SHARD = r"-\d{5,}-of-\d{5,}"
# photos-extra.tfrecord-00000-of-00007 as in TFDS, whose splits may have any name.
_TFDS = re.compile(rf".*-(?P<word>[a-z]\w*)\.[a-z_]+{_SHARD}", re.IGNORECASE | re.DOTALL)
# train-00000-of-01024 as in ImageNet, or coco_train.record-00000-of-00100.
_SHARDED = re.compile(rf"(?P<word>.*?)(?:\.[a-z]+)?{_SHARD}(?:\.\w+)*", re.IGNORECASE | re.DOTALL)


def record_splits(files: Sequence[Partition]) -> Sequence[str | None]:
    """Returns the splits from the names of files; None for each if they say none, or if folders say another one."""
    paths = [file.uri for file in files]
    splits = _shard_splits([*map(storage.basename, paths)]) or splits_of_names(paths)
    for file, split in zip(files, splits, strict=True):
        if split is None or not {None, split}.issuperset(map(split_in_name, file.key_prefix.split("/")[:-2])):
            return [None] * len(files)
    return splits


def place_files(files: Sequence[Partition], folders: Mapping[str, str]) -> list[Partition]:
    """Returns the files in folders that a request names as splits, with their splits; [] unless each name is a folder.

    Args:
      folders: path of a folder, or name of it at any depth -> split.
    """
    names = {f"/{folder.strip('/')}/": split for folder, split in folders.items()}
    splits = [next((names[name] for name in names if name in f"/{file.key_prefix}"), None) for file in files]
    if not {*names.values()} <= {*splits}:
        return []
    return [dataclasses.replace(file, split=split) for file, split in zip(files, splits, strict=True) if split]


def _shard_splits(names: Sequence[str]) -> list[str | None]:
    """Returns the split of each shard; [] if a file has another name, or if no word is usual for a split."""
    if all(map(_TFDS.fullmatch, names)):
        words = [match["word"].lower() for match in map(_TFDS.fullmatch, names) if match]
        return [SPLIT_NAMES.get(word.rpartition("_")[2], word) for word in words]
    words = [match["word"].lower() for match in map(_SHARDED.fullmatch, names) if match]
    if len(words) < len(names):
        return []
    # `testdev` is the split of `coco_testdev` beside `coco_train`.
    pieces = zip(*(re.findall(r"[^-_.]+[-_.]*", word) for word in words), strict=False)
    start = sum(len(same[0]) for same in itertools.takewhile(lambda several: len({*several}) == 1, pieces))
    splits = [SPLIT_NAMES.get(re.split(r"[-_.]", word)[-1], word[start:] or word) for word in words]
    return [*splits] if {*splits} & {*SPLIT_NAMES.values()} else []
