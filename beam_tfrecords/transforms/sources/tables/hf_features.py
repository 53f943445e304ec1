"""Parses the column descriptions that Hugging Face's datasets adds to an Arrow schema. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_tfrecords.transforms.sources.tables.object_cells import CLASS_FIELDS


class Declared(NamedTuple):
    """The classes that the description declares.

    Attributes:
      classes: column -> its class names; for a column of objects, the class names of their label field.
      several: columns with a list of classes.
    """

    classes: Mapping[str, Sequence[str]]
    several: frozenset[str]


def parse_features(schema: pa.Schema) -> Declared:
    """Reads the description of the columns; returns an empty one if the schema has none."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"].items()
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return Declared({}, frozenset())
    plain = {column: _inner(feature) for column, feature in features}
    classes = {column: names for column, feature in plain.items() if (names := _names_of(feature))}
    for column, feature in plain.items():
        if isinstance(feature, dict) and "_type" not in feature:
            field = next((feature[name] for name in CLASS_FIELDS if name in feature), None)
            classes |= {column: names} if (names := _names_of(_inner(field))) else {}
    several = {column for column, feature in features if column in classes and feature is not plain[column]}
    return Declared(classes, frozenset(several))


def _inner(feature: Any) -> Any:
    """Returns the element feature of a `Sequence`, `List` or one-element list; other features unchanged."""
    while True:
        if isinstance(feature, list) and len(feature) == 1:
            feature = feature[0]
        elif isinstance(feature, dict) and feature.get("_type") in ("Sequence", "List", "LargeList"):
            feature = feature.get("feature")
        else:
            return feature


def _names_of(feature: Any) -> tuple[str, ...]:
    is_label = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    return tuple(map(str, feature.get("names") or ())) if is_label else ()
