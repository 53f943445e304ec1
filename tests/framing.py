"""TFRecord files of given records, and the examples in them, without TensorFlow, whose import takes seconds."""

from __future__ import annotations

import gzip
import itertools
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from beam_tfrecords.examples.example_pb2 import Example, Feature
from beam_tfrecords.examples.wire import varint
from beam_tfrecords.tfrecord import frame, masked_crc32c


def framed(*records: bytes) -> bytes:
    """The bytes of a file of these records."""
    return b"".join(itertools.chain.from_iterable(frame(records, list(map(masked_crc32c, records)))))


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
      features: name -> bytes, a whole number or a float; a list of values of one of these kinds; or a feature, whose
        list may be empty.
    """
    example = Example()
    for name, given in features.items():
        feature = example.features.feature[name]
        if isinstance(given, Feature):
            feature.CopyFrom(given)
            continue
        lists = {bytes: feature.bytes_list, int: feature.int64_list, float: feature.float_list}
        for value in given if isinstance(given, list) else [given]:
            lists[type(value)].value.append(value)
    return example.SerializeToString()


def sequence_of(context: dict[str, Any], **lists: list[Any]) -> bytes:
    """Serializes a `SequenceExample`.

    Args:
      context: as `example_of` takes features.
      lists: name -> the value of each frame, as `example_of` takes values.
    """

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2]) + varint(len(data)) + data

    entries = b""
    for name, values in lists.items():
        frames = [Example.FromString(example_of({"": value})).features.feature[""] for value in values]
        features = b"".join(field(1, frame.SerializeToString()) for frame in frames)
        entries += field(1, field(1, name.encode()) + field(2, features))
    return example_of(context) + field(2, entries)


def write_examples(path: Path, examples: Iterable[dict[str, Any]]) -> None:
    """Writes a TFRecord file of examples, which are given as `example_of` takes them."""
    path.write_bytes(framed(*map(example_of, examples)))
