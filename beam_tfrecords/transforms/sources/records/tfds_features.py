"""Parses `features.json` and `dataset_info.json` of TFDS and beam-tfrecords datasets. Pure functions."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_SHARD = re.compile(r"(?:.*-)?(?P<split>\w+)\.\w+-(?P<number>\d{5,})-of-(?P<shards>\d{5,})")


@dataclasses.dataclass(frozen=True)
class Features:
    """Names of features in an example, by kind.

    Attributes:
      images: features with an encoded image.
      labels: features with one or several class indices.
      several: features with any number of values.
      boxes: features with any number of boxes.
      tensors: features with an array of one shape -> its shape and the NumPy name of its type.
    """

    images: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    several: frozenset[str] = frozenset()
    boxes: tuple[str, ...] = ()
    tensors: Mapping[str, tuple[tuple[int, ...], str]] = dataclasses.field(default_factory=dict)


def parse_features(data: bytes) -> Features:
    """Parses `features.json` (feature.proto of tensorflow_datasets as JSON).

    Raises:
      ValueError: the data does not have this format.
    """
    try:
        found = list(_walk(json.loads(data), "", several=False))
        tensors = {one.name: _parse_tensor(one.feature) for one in found if one.kind == "Tensor" and not one.several}
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError("not the features of a dataset") from error
    return Features(
        # Excludes sequences of images.
        tuple(one.name for one in found if one.kind == "Image" and not one.several),
        tuple(one.name for one in found if one.kind == "ClassLabel"),
        frozenset(one.name for one in found if one.several),
        tuple(one.name for one in found if one.kind == "BBoxFeature" and one.several),
        {name: tensor for name, tensor in tensors.items() if tensor},
    )


def parse_shard_lengths(data: bytes) -> dict[tuple[str, int, int], int]:
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


def shard_of(name: str) -> tuple[str, int, int] | None:
    """Parses a shard's file name; returns (split, shard number, number of shards), or None for another name.

    TFDS uses names such as photos-train.tfrecord-00000-of-00007.
    """
    found = _SHARD.fullmatch(name)
    return (found["split"], int(found["number"]), int(found["shards"])) if found else None


class _Described(NamedTuple):
    """A feature in `features.json`.

    Attributes:
      name: its name in an example.
      kind: its class.
      several: whether it is in a sequence.
      feature: its description.
    """

    name: str
    kind: str
    several: bool
    feature: Mapping[str, Any]


def _walk(feature: Mapping[str, Any], name: str, *, several: bool) -> Iterator[_Described]:
    """Yields the features below a feature."""
    kind = str(feature.get("pythonClassName", "")).rpartition(".")[2]
    below = feature.get("featuresDict", {}).get("features", {})
    for one, inner in below.items():
        yield from _walk(inner, f"{name}/{one}" if name else one, several=several)
    if kind == "Sequence":
        yield from _walk(feature["sequence"]["feature"], name, several=True)
    elif name and not below:
        yield _Described(name, kind, several, feature)


def _parse_tensor(feature: Mapping[str, Any]) -> tuple[tuple[int, ...], str] | None:
    """Returns the shape and the type of a `Tensor`; None if its arrays differ in shape, or are compressed."""
    tensor = feature.get("tensor", {})
    shape = tuple(map(int, tensor.get("shape", {}).get("dimensions", ())))
    is_plain = tensor.get("encoding", "none") in ("none", "bytes") and min(shape, default=0) > 0
    return (shape, str(tensor.get("dtype", ""))) if is_plain else None
