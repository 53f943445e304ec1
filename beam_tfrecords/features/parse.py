"""Parses serialized examples, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from beam_tfrecords.features import example_pb2
from beam_tfrecords.features.layouts import Layout

# Feature -> its type, "" for none, and its values.
ParsedExample: TypeAlias = "Mapping[str, tuple[str, list[Any]]]"

# Field of a SequenceExample with its lists of features (tensorflow/core/example/example.proto).
_LISTS = 2
_KINDS = {"bytes_list": "bytes", "float_list": "float", "int64_list": "int64"}


def parse_example(data: bytes) -> dict[str, tuple[str, list[Any]]]:
    """Parses an example: feature name -> (type, values), sorted by name.

    Raises:
      ValueError: the data is not an example.
    """
    return _values_in(_parse(data, example_pb2.Example))


def parse_plain_example(data: bytes) -> dict[str, tuple[str, list[Any]]]:
    """Parses an example as `parse_example` does, which takes a `SequenceExample` for its context alone.

    Raises:
      ValueError: the data is not an example, or is a `SequenceExample` with lists.
    """
    example = _parse(data, example_pb2.Example)
    if any(number == _LISTS and isinstance(value, bytes) for number, value in _unknown_fields(example)):
        raise ValueError("it is a SequenceExample; expected an Example")
    return _values_in(example)


def read_fields(data: bytes) -> list[tuple[int, Any]]:
    """Returns the number and the value of each field of a message of an unknown class: an integer, or bytes.

    Raises:
      ValueError: the data is not a message.
    """
    return _unknown_fields(_parse(data, Empty))


def _parse(data: bytes, kind: Any) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(f"not a tf.train.Example: {error}") from error


def _unknown_fields(message: Any) -> list[tuple[int, Any]]:
    fields: Any = UnknownFieldSet(message)
    return [(field.field_number, field.data) for field in fields]


def _values_in(example: example_pb2.Example) -> dict[str, tuple[str, list[Any]]]:
    features = example.features.feature
    return {name: _values_of(features[name]) for name in sorted(features)}


def _values_of(feature: example_pb2.Feature) -> tuple[str, list[Any]]:
    kind = feature.WhichOneof("kind")
    return (_KINDS[kind], list(getattr(feature, kind).value)) if kind else ("", [])


def check_features(parsed: ParsedExample, layout: Layout) -> Iterator[tuple[str, str]]:
    """Compares a parsed example with its layout; yields the name of a feature and how it differs.

    A feature with any number of values may be missing, because readers take it as a list without values.
    """
    expected = {feature.name: feature for feature in layout.features}
    for name in sorted(expected.keys() | parsed.keys()):
        feature = expected.get(name)
        kind, values = parsed.get(name, ("", []))
        if feature is None:
            yield name, f"feature {name!r} is not in the layout"
        elif name not in parsed:
            if not feature.several:
                yield name, f"feature {name!r} is missing"
        elif kind != feature.type and (kind or not feature.several):
            yield name, f"feature {name!r} is {kind or 'empty'}; expected {feature.type}"
        elif not feature.several and len(values) != (feature.length or 1):
            yield name, f"feature {name!r} has {len(values)} values; expected {feature.length or 1}"
