"""Parses `features.json` and `dataset_info.json` of TFDS and beam-tfrecords datasets. Pure functions."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_SHARD = re.compile(r"(?:.*-)?(?P<split>\w+)\.\w+-(?P<number>\d{5,})-of-(?P<shards>\d{5,})")


@dataclasses.dataclass(frozen=True)
class Features:
    """Names of features in an example, by kind.

    Attributes:
      images: features with an encoded image.
      labels: features with one or several class indices.
      several: features with any number of values.
      boxes: features with any number of boxes.
    """

    images: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    several: frozenset[str] = frozenset()
    boxes: tuple[str, ...] = ()


def parse_features(data: bytes) -> Features:
    """Parses `features.json` (feature.proto of tensorflow_datasets as JSON).

    Raises:
      ValueError: the data does not have this format.
    """
    try:
        found = list(_walk(json.loads(data), "", several=False))
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError("not the features of a dataset") from error
    return Features(
        # Excludes sequences of images.
        tuple(name for name, kind, several in found if kind == "Image" and not several),
        tuple(name for name, kind, _ in found if kind == "ClassLabel"),
        frozenset(name for name, _, several in found if several),
        tuple(name for name, kind, several in found if kind == "BBoxFeature" and several),
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


def _walk(feature: Mapping[str, Any], name: str, *, several: bool) -> Iterator[tuple[str, str, bool]]:
    """Yields (name in an example, class, whether in a sequence) for each feature."""
    kind = str(feature.get("pythonClassName", "")).rpartition(".")[2]
    below = feature.get("featuresDict", {}).get("features", {})
    for one, inner in below.items():
        yield from _walk(inner, f"{name}/{one}" if name else one, several=several)
    if kind == "Sequence":
        yield from _walk(feature["sequence"]["feature"], name, several=True)
    elif name and not below:
        yield name, kind, several
