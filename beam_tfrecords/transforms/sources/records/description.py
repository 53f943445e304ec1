"""Reads metadata files next to record files: features, class names, numbers of records."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from typing import NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.output.files import DATASET_INFO, FEATURES, LABEL_MAP, label_file
from beam_tfrecords.output.label_files import read_label_file, read_label_map
from beam_tfrecords.transforms.sources.records.object_features import CLASSES_OF_OBJECTS
from beam_tfrecords.transforms.sources.records.tfds_features import (
    Features,
    parse_features,
    parse_shard_lengths,
    shard_of,
)


class RecordMetadata(NamedTuple):
    """The metadata of the record files in a folder.

    Attributes:
      features: features of an example.
      class_names: feature -> its class names.
      lengths: as from `parse_shard_lengths`.
    """

    features: Features
    class_names: Mapping[str, tuple[str, ...]]
    lengths: Mapping[tuple[str, int, int], int]

    def length_of(self, path: str) -> int | None:
        """Returns the number of records in a file; None if unknown."""
        shard = shard_of(storage.basename(path))
        return self.lengths.get(shard) if shard else None


def describe_folder(folder: str) -> RecordMetadata:
    """Reads the metadata files in a folder; ignores damaged files."""
    names: dict[str, tuple[str, ...]] = {}
    try:
        lengths = parse_shard_lengths(_read_beside(folder, DATASET_INFO) or b"")
    except ValueError:
        lengths = {}
    if label_map := _read_beside(folder, LABEL_MAP) or _read_only(folder, f"*{LABEL_MAP}"):
        names = dict.fromkeys(CLASSES_OF_OBJECTS, tuple(read_label_map(label_map)))
    try:
        features = parse_features(_read_beside(folder, FEATURES) or b"")
    except ValueError:
        return RecordMetadata(Features(), names, lengths)
    for label in features.labels:
        if lines := _read_beside(folder, label_file(label)):
            names[label] = tuple(read_label_file(lines))
    return RecordMetadata(features, names, lengths)


def _read_beside(folder: str, name: str) -> bytes | None:
    """Reads a file next to the records; returns None if it does not exist."""
    try:
        return storage.read_bytes(storage.join(folder, name))
    except OSError as error:
        if storage.is_service_fault(error):
            raise
        return None


def _read_only(folder: str, pattern: str) -> bytes | None:
    """Reads the only matching file next to the records; returns None for no or several matches."""
    found = [entry for entry in storage.list_files(storage.join(glob.escape(folder), pattern)) if entry.size > 0]
    return _read_beside(folder, storage.basename(found[0].path)) if len(found) == 1 else None
