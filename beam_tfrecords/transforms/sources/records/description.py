"""What the files beside records say of them: features, names of classes, numbers of records."""

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


class Description(NamedTuple):
    """What stands beside the files of a folder.

    Attributes:
      features: of an example.
      class_names: feature -> names of its classes.
      lengths: as `parse_shard_lengths` has them.
    """

    features: Features
    class_names: Mapping[str, tuple[str, ...]]
    lengths: Mapping[tuple[str, int, int], int]

    def length_of(self, path: str) -> int | None:
        """Number of the records of a file, if something says it."""
        shard = shard_of(storage.basename(path))
        return self.lengths.get(shard) if shard else None


def describe_folder(folder: str) -> Description:
    """What the files beside the records of a folder say of them; nothing where they are damaged."""
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
        return Description(Features(), names, lengths)
    for label in features.labels:
        if lines := _read_beside(folder, label_file(label)):
            names[label] = tuple(read_label_file(lines))
    return Description(features, names, lengths)


def _read_beside(folder: str, name: str) -> bytes | None:
    """A file beside the records; None if there is none."""
    try:
        return storage.read_bytes(storage.join(folder, name))
    except OSError as error:
        if storage.is_service_fault(error):
            raise
        return None


def _read_only(folder: str, pattern: str) -> bytes | None:
    """The only file beside the records whose name is like this; None if there is none, or there are several."""
    found = [entry for entry in storage.list_files(storage.join(glob.escape(folder), pattern)) if entry.size > 0]
    return _read_beside(folder, storage.basename(found[0].path)) if len(found) == 1 else None
