"""What `features.json` and `dataset_info.json` of a TFDS dataset, or of one of ours, say of it. Pure functions."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_SHARD = re.compile(r"(?:.*-)?(?P<split>\w+)\.\w+-(?P<number>\d{5,})-of-(?P<shards>\d{5,})")


@dataclasses.dataclass(frozen=True)
class Features:
    """The features that matter here, by their names in an example.

    Attributes:
      images: those with an encoded image.
      labels: those with the index of a class, or several.
      several: those with any number of values.
      boxes: those with a box for each of any number of objects.
    """

    images: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    several: frozenset[str] = frozenset()
    boxes: tuple[str, ...] = ()


def parse_features(data: bytes) -> Features:
    """Reads `features.json` (feature.proto of tensorflow_datasets as JSON).

    Raises:
      ValueError: it is none.
    """
    try:
        found = list(_walk(json.loads(data), "", several=False))
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError("not the features of a dataset") from error
    return Features(
        # A sequence of images is not one image.
        tuple(name for name, kind, several in found if kind == "Image" and not several),
        tuple(name for name, kind, _ in found if kind == "ClassLabel"),
        frozenset(name for name, _, several in found if several),
        tuple(name for name, kind, several in found if kind == "BBoxFeature" and several),
    )


def parse_shard_lengths(data: bytes) -> dict[tuple[str, int, int], int]:
    """Reads the records of every shard from `dataset_info.json` (dataset_info.proto of tensorflow_datasets as JSON).

    Returns:
      (split, number of the shard, number of shards) -> records.

    Raises:
      ValueError: it is none.
    """
    try:
        splits = [(split["name"], list(map(int, split["shardLengths"]))) for split in json.loads(data)["splits"]]
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("not the description of a dataset") from error
    return {(name, number, len(lengths)): records for name, lengths in splits for number, records in enumerate(lengths)}


def shard_of(name: str) -> tuple[str, int, int] | None:
    """The split of a shard, its number and the number of shards, by the name of its file; None if that is no shard's.

    TFDS names them photos-train.tfrecord-00000-of-00007.
    """
    found = _SHARD.fullmatch(name)
    return (found["split"], int(found["number"]), int(found["shards"])) if found else None


def _walk(feature: Mapping[str, Any], name: str, *, several: bool) -> Iterator[tuple[str, str, bool]]:
    """(name in an example, class, whether it is in a sequence) of every feature."""
    kind = str(feature.get("pythonClassName", "")).rpartition(".")[2]
    below = feature.get("featuresDict", {}).get("features", {})
    for one, inner in below.items():
        yield from _walk(inner, f"{name}/{one}" if name else one, several=several)
    if kind == "Sequence":
        yield from _walk(feature["sequence"]["feature"], name, several=True)
    elif name and not below:
        yield name, kind, several
