"""Reads metadata files next to record files: features, class names, numbers of records.

TFDS and beam-tfrecords write `features.json` and `dataset_info.json`.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import DATASET_INFO, FEATURES, LABEL_MAP, label_file
from beam_tfrecords.dataset.label_files import read_label_file, read_label_map

# Class names of objects, and class numbers, which start at 1, in TensorFlow's Object Detection API.
CLASSES_OF_OBJECTS = ("image/object/class/text", "image/object/class/label")
_SHARD = re.compile(r"(?:.*-)?(?P<split>\w+)\.\w+-(?P<number>\d{5,})-of-(?P<shards>\d{5,})")


@dataclasses.dataclass(frozen=True)
class Features:
    """What files beside records say of the features in an example.

    Attributes:
      images: features with an encoded image.
      labels: features with one or several class indices.
      several: features with any number of values.
      boxes: features with any number of boxes.
      tensors: features with an array of one shape -> its shape and the NumPy name of its type.
      class_names: feature -> its class names.
      lengths: (split, shard number, number of shards) -> number of records.
    """

    images: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    several: frozenset[str] = frozenset()
    boxes: tuple[str, ...] = ()
    tensors: Mapping[str, tuple[tuple[int, ...], str]] = dataclasses.field(default_factory=dict)
    class_names: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    lengths: Mapping[tuple[str, int, int], int] = dataclasses.field(default_factory=dict)

    def length_of(self, path: str) -> int | None:
        """Returns the number of records in a file; None if unknown.

        TFDS uses names such as photos-train.tfrecord-00000-of-00007.
        """
        found = _SHARD.fullmatch(storage.basename(path))
        return self.lengths.get((found["split"], int(found["number"]), int(found["shards"]))) if found else None


def find_described(root: str, files: Iterable[str]) -> set[str]:
    """Returns the folders with files that `describe_folder` reads.

    Args:
      root: folder that the paths are relative to.
      files: paths of files.
    """
    names = (DATASET_INFO, FEATURES, LABEL_MAP)
    return {storage.dirname(storage.join(root, file)) for file in files if file.endswith(names)}


def describe_folder(folder: str) -> Features:
    """Reads the metadata files in a folder; ignores damaged files."""
    names: dict[str, tuple[str, ...]] = {}
    try:
        lengths = _parse_shard_lengths(_read_beside(folder, DATASET_INFO) or b"")
    except ValueError:
        lengths = {}
    if label_map := _read_beside(folder, LABEL_MAP) or _read_only(folder, f"*{LABEL_MAP}"):
        names = dict.fromkeys(CLASSES_OF_OBJECTS, tuple(read_label_map(label_map)))
    try:
        features = parse_features(_read_beside(folder, FEATURES) or b"")
    except ValueError:
        features = Features()
    for label in features.labels:
        if lines := _read_beside(folder, label_file(label)):
            names[label] = tuple(read_label_file(lines))
    return dataclasses.replace(features, class_names=names, lengths=lengths)


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


def parse_features(data: bytes) -> Features:
    """Parses `features.json` (feature.proto of tensorflow_datasets as JSON).

    Raises:
      ValueError: the data does not have this format.
    """
    try:
        found = list(_walk(json.loads(data), "", several=False))
        tensors = {name: _parse_tensor(one) for name, kind, several, one in found if kind == "Tensor" and not several}
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError("not the features of a dataset") from error
    return Features(
        # Excludes sequences of images.
        tuple(name for name, kind, several, _ in found if kind == "Image" and not several),
        tuple(name for name, kind, *_ in found if kind == "ClassLabel"),
        frozenset(name for name, _, several, _ in found if several),
        tuple(name for name, kind, several, _ in found if kind == "BBoxFeature" and several),
        {name: tensor for name, tensor in tensors.items() if tensor},
    )


def _parse_shard_lengths(data: bytes) -> dict[tuple[str, int, int], int]:
    """Parses the shard lengths in `dataset_info.json` (dataset_info.proto of tensorflow_datasets as JSON).

    Returns:
      (split, shard number, number of shards) -> number of records.

    Raises:
      ValueError: the data does not have this format.
    """
    try:
        splits = [(split["name"], list(map(int, split["shardLengths"]))) for split in json.loads(data)["splits"]]
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("not the description of a dataset") from error
    return {(name, number, len(lengths)): records for name, lengths in splits for number, records in enumerate(lengths)}


def _walk(
    feature: Mapping[str, Any], name: str, *, several: bool
) -> Iterator[tuple[str, str, bool, Mapping[str, Any]]]:
    """Yields name, class and description of the features below a feature, and whether they are in a sequence."""
    kind = str(feature.get("pythonClassName", "")).rpartition(".")[2]
    below = feature.get("featuresDict", {}).get("features", {})
    for one, inner in below.items():
        yield from _walk(inner, f"{name}/{one}" if name else one, several=several)
    if kind == "Sequence":
        yield from _walk(feature["sequence"]["feature"], name, several=True)
    elif name and not below:
        yield name, kind, several, feature


def _parse_tensor(feature: Mapping[str, Any]) -> tuple[tuple[int, ...], str] | None:
    """Returns the shape and the type of a `Tensor`; None if its arrays differ in shape, or are compressed."""
    tensor = feature.get("tensor", {})
    shape = tuple(map(int, tensor.get("shape", {}).get("dimensions", ())))
    is_plain = tensor.get("encoding", "none") in ("none", "bytes") and min(shape, default=0) > 0
    return (shape, str(tensor.get("dtype", ""))) if is_plain else None
