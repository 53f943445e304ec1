"""TFRecord files of given records, and the examples in them, read and written without the product and TensorFlow."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _define_example() -> Any:
    """Returns the class of `tensorflow.Example`, by its definition (tensorflow/core/example/feature.proto)."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    kinds = {"bytes_list": ("BytesList", 12), "float_list": ("FloatList", 2), "int64_list": ("Int64List", 3)}
    for name, kind in kinds.values():
        file.message_type.add(name=name).field.add(name="value", number=1, label=3, type=kind)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (field, (name, _)) in enumerate(kinds.items(), 1):
        feature.field.add(name=field, number=number, label=1, type=11, type_name=f".tensorflow.{name}", oneof_index=0)
    features = file.message_type.add(name="Features")
    features.field.add(name="feature", number=1, label=3, type=11, type_name=".tensorflow.Features.FeatureEntry")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=11, type_name=".tensorflow.Feature")
    example = file.message_type.add(name="Example")
    example.field.add(name="features", number=1, label=1, type=11, type_name=".tensorflow.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


Example = _define_example()


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])


def masked_crc32c(data: bytes) -> int:
    """Returns the sum that TFRecord files hold (tensorflow/core/lib/hash/crc32c.h)."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(*records: bytes) -> bytes:
    """The bytes of a file of these records."""
    heads = [struct.pack("<Q", len(record)) for record in records]
    return b"".join(
        head + struct.pack("<I", masked_crc32c(head)) + record + struct.pack("<I", masked_crc32c(record))
        for head, record in zip(heads, records, strict=True)
    )


def records_of(path: Path) -> Iterator[bytes]:
    """Yields the records of a TFRecord file or a GZIP one, after a check of both sums of each."""
    content = path.read_bytes()
    data = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    begin = 0
    while begin < len(data):
        length, crc = struct.unpack_from("<QI", data, begin)
        record = data[begin + 12 : begin + 12 + length]
        assert crc == masked_crc32c(data[begin : begin + 8])
        assert struct.unpack_from("<I", data, begin + 12 + length) == (masked_crc32c(record),)
        yield record
        begin += 12 + length + 4


def example_of(features: dict[str, Any]) -> bytes:
    """Serializes an example.

    Args:
      features: name -> text, bytes, a whole number or a float; a list of values of one of these kinds; or a feature,
        whose list may be empty.
    """
    example = Example()
    for name, given in features.items():
        feature = example.features.feature[name]
        if hasattr(given, "SerializeToString"):
            feature.ParseFromString(given.SerializeToString())
            continue
        lists = {bytes: feature.bytes_list, int: feature.int64_list, float: feature.float_list}
        for value in given if isinstance(given, list) else [given]:
            stored = value.encode() if isinstance(value, str) else value
            lists[type(stored)].value.append(stored)
    return example.SerializeToString()


def sequence_of(context: dict[str, Any], **lists: list[Any]) -> bytes:
    """Serializes a `SequenceExample`.

    Args:
      context: as `example_of` takes features.
      lists: name -> the value of each frame, as `example_of` takes values.
    """

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2]) + _varint(len(data)) + data

    entries = b""
    for name, values in lists.items():
        frames = [Example.FromString(example_of({"": value})).features.feature[""] for value in values]
        features = b"".join(field(1, frame.SerializeToString()) for frame in frames)
        entries += field(1, field(1, name.encode()) + field(2, features))
    return example_of(context) + field(2, entries)


def write_examples(path: Path, examples: Iterable[dict[str, Any]]) -> None:
    """Writes a TFRecord file of examples, which are given as `example_of` takes them."""
    path.write_bytes(framed(*map(example_of, examples)))
