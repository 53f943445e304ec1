"""Finds the TFRecord files of a request, with their keys and the columns in the names of their folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.output.files import DATASET_INFO, FEATURES, LABEL_MAP
from beam_tfrecords.transforms.sources.inputs import (
    InputFile,
    Inputs,
    key_prefixes,
    names_several,
    quote_input,
    require_utf8,
)
from beam_tfrecords.transforms.sources.records.partitions import PartitionValues, partition_of, read_values
from beam_tfrecords.transforms.sources.records.record_datasets import check_one_dataset, find_older, show_folders
from beam_tfrecords.transforms.sources.records.record_files import count_files, find_record_files
from beam_tfrecords.transforms.sources.selection import Selection


class RecordTree(NamedTuple):
    """The TFRecord files of a request.

    Attributes:
      files: the files.
      described: folders that may have metadata.
      partitions: folder -> values of columns, from folders such as `label=cat`.
      notes: sentences on files that are not read.
    """

    files: Sequence[InputFile]
    described: frozenset[str]
    partitions: Mapping[str, PartitionValues]
    notes: Sequence[str]


def find_record_tree(inputs: Inputs, selection: Selection) -> RecordTree:
    """Finds the TFRecord files of the inputs.

    Args:
      inputs: files, folders and globs.
      selection: the records to convert.

    Raises:
      RequestError: an input has no such file, or has several datasets.
    """
    files: list[InputFile] = []
    described: set[str] = set()
    words: dict[str, dict[str, str]] = {}
    notes: list[str] = []
    for path, prefix in zip(inputs.paths, key_prefixes(inputs.paths), strict=True):
        found = find_record_files(path)
        notes += found.notes
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
        kept = [
            name for name, key in zip(found.files, keys, strict=True) if not selection.skips_path(key.removesuffix("/"))
        ]
        older = find_older(kept)
        if older:
            notes.append(f"of the versions of a span, the newest is read, and not {show_folders(older)}")
        is_read = {name: not any(name.startswith(f"{folder}/") for folder in older) for name in found.files}
        check_one_dataset(path, found, [name for name in kept if is_read[name]])
        split = inputs.splits.get(path)
        files += [
            InputFile(key, entry, split)
            for (name, entry), key in zip(found.files.items(), keys, strict=True)
            if is_read[name]
        ]
        folders = {storage.dirname(entry.path) for entry in entries}
        described |= folders & _find_metadata(found.root, found.others) if is_folder else folders
        words |= {folder: partition_of(folder, found.root) for folder in folders}
    return RecordTree(files, frozenset(described), read_values(words), notes)


def _find_metadata(root: str, files: Iterable[str]) -> set[str]:
    """Returns the folders with files that `describe_folder` reads."""
    names = (DATASET_INFO, FEATURES, LABEL_MAP)
    return {storage.dirname(storage.join(root, file)) for file in files if file.endswith(names)}
