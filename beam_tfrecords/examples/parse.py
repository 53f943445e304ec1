"""Parses serialized examples, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from beam_tfrecords.examples import example_pb2
from beam_tfrecords.examples.layouts import Layout

_KINDS = {"bytes_list": "bytes", "float_list": "float", "int64_list": "int64"}


def parse_example(data: bytes) -> dict[str, tuple[str, list[Any]]]:
    """Parses an example: feature name -> (type, values), sorted by name.

    Raises:
      ValueError: the data is not an example.
    """
    try:
        example = example_pb2.Example.FromString(data)
    except DecodeError as error:
        raise ValueError(f"not a tf.train.Example: {error}") from error
    parsed = {}
    for name in sorted(example.features.feature):
        feature = example.features.feature[name]
        kind = feature.WhichOneof("kind")
        parsed[name] = (_KINDS[kind], list(getattr(feature, kind).value)) if kind else ("", [])
    return parsed


def check_features(parsed: dict[str, tuple[str, list[Any]]], layout: Layout) -> Iterator[str]:
    """Compares a parsed example with its layout; yields the differences."""
    expected = {feature.name: feature for feature in layout.features}
    for name in sorted(expected.keys() | parsed.keys()):
        if name not in parsed:
            yield f"feature {name!r} is missing"
        elif name not in expected:
            yield f"feature {name!r} is not in the layout"
        else:
            kind, values = parsed[name]
            feature = expected[name]
            if kind != feature.type:
                yield f"feature {name!r} is {kind or 'empty'}; expected {feature.type}"
            elif not feature.several and len(values) != (feature.length or 1):
                yield f"feature {name!r} has {len(values)} values; expected {feature.length or 1}"
