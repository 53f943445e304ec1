"""Serializes a `tf.train.Example` from the values of its fields, and parses one, without TensorFlow."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features import example_pb2, wire
from beam_tfrecords.features.fields import SOURCE_ID, Stored
from beam_tfrecords.features.layouts import Feature, Layout

# Integers of fewer digits always fit.
_INT64_DIGITS = 19
_INT64 = range(-(1 << 63), 1 << 63)
_FLOAT32_MAX = 3.4028234663852886e38
_INTEGER = re.compile(r"[+-]?[0-9]+")
# Python's spellings of infinity; `float` also turns numbers of too many digits into infinity.
_INFINITIES = frozenset({"inf", "infinity"})
_TOO_LARGE = "beyond the range of a 32-bit float"
_BOOLEANS = {"true": 1, "false": 0}


def serialize_examples(layout: Layout, columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """Serializes a batch of examples; equal values always give equal bytes.

    Args:
      layout: a layout with at least one feature.
      columns: for each feature of the layout, the value or list of values in each example.

    Raises:
      SampleError: a value is missing or does not have the type of its feature; the detail names the feature.
    """
    entries = [_serialize_column(*pair) for pair in zip(layout.features, columns, strict=True)]
    return wire.join_entries([entries[number] for number in layout.stored_order])


def read_fields(layout: Layout, data: bytes, *, with_ids: bool = True) -> dict[str, Any]:
    """Returns the values of those fields of a serialized example that come from its images.

    Args:
      layout: layout of the example.
      data: the serialized example.
      with_ids: whether to return the id of the image, too.
    """
    features = example_pb2.Example.FromString(data).features.feature
    return {
        one.field: list(getattr(features[one.name], f"{one.type}_list").value)
        for one in layout.features
        if one.kind.of_image or one.kind.stored in (Stored.IMAGE, Stored.MASK) or (with_ids and one.field == SOURCE_ID)
    }


def plain_value(feature: Feature, value: Any) -> Any:
    """Returns the value as a feature with one value stores it, text as `str`; None if the feature rejects it."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    try:
        if feature.type == "bytes":
            return _to_bytes(feature, value).decode(errors="replace")
        return (_to_int64 if feature.type == "int64" else _to_float)(feature, value)
    except SampleError:
        return None


def _serialize_list(feature: Feature, value: Any) -> bytes:
    """Serializes a feature that may have any number of values."""
    items = value if isinstance(value, list) else [value]
    if feature.length:
        entry = wire.int64_entry if feature.type == "int64" else wire.float_entry
        return entry(feature.name, read_vector(feature, items))
    if len(items) != 1 and not feature.several:
        raise _wrong_type(feature, value, f"{len(items)} values where one is expected")
    if feature.type == "bytes":
        return wire.bytes_entry(feature.name, [_to_bytes(feature, item) for item in items])
    if feature.type == "int64":
        return wire.int64_entry(feature.name, [_to_int64(feature, item) for item in items])
    return wire.float_entry(feature.name, [_to_float(feature, item) for item in items])


def read_vector(feature: Feature, items: list[Any]) -> Sequence[Any]:
    """Returns the numbers of a feature with a fixed number of values.

    Raises:
      SampleError: a value is missing or no number; the detail names its column, or its place.
    """
    if len(items) != feature.length:
        raise _wrong_type(feature, items, f"{len(items)} values where {feature.length} are expected")
    plain: Any = _plain_numbers(feature, items) if {*map(type, items)} == {str} else None
    if plain is not None and all(number == number for number in plain):
        return plain
    convert, values = (_to_int64 if feature.type == "int64" else _to_float), list[Any]()
    for place, item in enumerate(items):
        where = f"column {feature.columns[place]!r}" if feature.columns else f"{feature.field}, value {place}"
        try:
            values.append(convert(feature, item))
            if values[-1] != values[-1]:
                raise _missing(feature)
        except SampleError as error:
            raise error.about(where) from error
    return values


def _serialize_column(feature: Feature, values: Sequence[Any]) -> wire.Entries:
    """Serializes a feature of all examples."""
    kinds = set(map(type, values))
    if kinds == {list} and not feature.several and set(map(len, values)) == {1}:
        only = [value for (value,) in values]
        # A nested list has the wrong type, which is detected below.
        if list not in map(type, only):
            values, kinds = only, set(map(type, only))
    if feature.several or feature.length or list in kinds:
        return ([_serialize_list(feature, value) for value in values],)
    if kinds == {str} and (numbers := _plain_numbers(feature, values)) is not None:
        values, kinds = numbers, set(map(type, numbers))
    if feature.type == "bytes":
        return wire.bytes_entries(feature.name, [_to_bytes(feature, value) for value in values])
    if feature.type == "int64":
        if kinds != {int} or min(values) not in _INT64 or max(values) not in _INT64:
            values = [_to_int64(feature, value) for value in values]
        return wire.int64_entries(feature.name, values)
    if kinds != {float} or not max(map(abs, values)) <= _FLOAT32_MAX:
        values = [_to_float(feature, value) for value in values]
    return wire.float_entries(feature.name, values)


def _plain_numbers(feature: Feature, texts: Sequence[str]) -> Sequence[float] | None:
    """Parses a CSV file's column of numbers; returns None if a value may be something else."""
    if feature.type == "int64":
        digits = "".join(texts)
        is_plain = digits.isascii() and digits.isdigit() and "" not in texts and max(map(len, texts)) < _INT64_DIGITS
        return list(map(int, texts)) if is_plain else None
    if feature.type == "float":
        with contextlib.suppress(ValueError):
            numbers = list(map(float, texts))
            return numbers if max(map(abs, numbers)) <= _FLOAT32_MAX else None
    return None


def _to_bytes(feature: Feature, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise _wrong_type(feature, value, "not encodable as UTF-8") from error
    raise _missing(feature) if value is None else _wrong_type(feature, value, "not a string")


def _to_int64(feature: Feature, value: Any) -> int:
    # CSV files have text for every type; 1.0 is rejected both as text and as a number.
    if isinstance(value, str):
        text = value.strip()
        if not text:
            raise _missing(feature)
        if _INTEGER.fullmatch(text):
            value = int(text) if len(text) < 32 else value
        else:
            value = _BOOLEANS.get(text.lower(), value)
    if isinstance(value, int) and value in _INT64:
        return int(value)
    raise _missing(feature) if value is None else _wrong_type(feature, value, "not a 64-bit integer")


def _to_float(feature: Feature, value: Any) -> float:
    if isinstance(value, str):
        text = value.strip()
        if not text:
            raise _missing(feature)
        try:
            value = float(text)
        except ValueError as error:
            raise _wrong_type(feature, value, "not a number") from error
        if math.isinf(value) and text.strip("+-").lower() not in _INFINITIES:
            raise _wrong_type(feature, text, _TOO_LARGE)
    if isinstance(value, int | float):
        if abs(value) <= _FLOAT32_MAX or value != value or abs(value) == float("inf"):
            return float(value)
        raise _wrong_type(feature, value, _TOO_LARGE)
    raise _missing(feature) if value is None else _wrong_type(feature, value, "not a number")


def _missing(feature: Feature) -> SampleError:
    return SampleError(Stage.EXAMPLE, FailureReason.VALUE_MISSING, f"feature {feature.name!r}: no value")


def _wrong_type(feature: Feature, value: Any, why: str) -> SampleError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return SampleError(
        Stage.EXAMPLE,
        FailureReason.WRONG_TYPE,
        f"feature {feature.name!r} of type {feature.type}: {shown} ({type(value).__name__}) is {why}",
    )


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


def read_message(data: bytes) -> list[tuple[int, Any]]:
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
