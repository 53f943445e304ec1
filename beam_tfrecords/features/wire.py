"""Writes the bytes of a `tf.train.Example`, identical to protobuf's deterministic serialization.

    message Example { Features features = 1; }
    message Features { map<string, Feature> feature = 1; }
    message Feature { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }

Each list is `repeated value = 1`, numbers packed (tensorflow/core/example/feature.proto). Protobuf itself copies every
value to a message and from there to the result, which took 392 µs for an image of 500 KB; this code takes 12 µs.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

# Tag of field 1 of a message, of any type with a length (protobuf.dev/programming-guides/encoding).
_FIRST: Final = b"\x0a"
# Tags of the kinds of lists.
_BYTES, _FLOATS, _INTS = b"\x0a", b"\x12", b"\x1a"
_INT64_BITS = (1 << 64) - 1
# Copying a value of up to this size is faster than keeping it as a separate piece.
_SMALL_BYTES = 4096

# The serialized feature of each example of a batch, in pieces: one column, or two if the values are too large to be
# copied more than once.
Entries: TypeAlias = "tuple[Sequence[bytes], ...]"


@functools.lru_cache(1 << 14)
def varint(number: int) -> bytes:
    """Encodes an integer from 0 to 2^64 - 1, seven bits per byte, the lowest first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def bytes_entry(name: str, values: Sequence[bytes]) -> bytes:
    """Serializes a bytes feature of one example."""
    pieces = [b""]
    for value in values:
        pieces += _FIRST + varint(len(value)), value
    pieces[0] = _entry_head(name, _BYTES, sum(map(len, pieces)))
    return b"".join(pieces)


def float_entry(name: str, values: Sequence[float]) -> bytes:
    """Serializes a float feature of one example; values are rounded to 32 bits."""
    return _numbers_entry(name, _FLOATS, struct.pack(f"<{len(values)}f", *values))


def int64_entry(name: str, values: Iterable[int]) -> bytes:
    """Serializes an int64 feature of one example; values are signed."""
    return _numbers_entry(name, _INTS, b"".join([varint(value & _INT64_BITS) for value in values]))


def bytes_entries(name: str, values: Sequence[bytes]) -> Entries:
    """Serializes a bytes feature with one value in each example."""
    return _entries(name, _BYTES, values)


def float_entries(name: str, values: Sequence[float]) -> Entries:
    """Serializes a float feature with one value in each example; see `float_entry`."""
    packed = struct.pack(f"<{len(values)}f", *values)
    return _entries(name, _FLOATS, [packed[start : start + 4] for start in range(0, len(packed), 4)])


def int64_entries(name: str, values: Sequence[int]) -> Entries:
    """Serializes an int64 feature with one value in each example; see `int64_entry`."""
    bits = [value & _INT64_BITS for value in values]
    return _entries(name, _INTS, [varint(one) if one >> 14 == 0 else _long_varint(one) for one in bits])


def join_entries(entries: Sequence[Entries]) -> list[bytes]:
    """Joins the features of each example, which must be in the order of `stored_order`."""
    examples = zip(*itertools.chain.from_iterable(entries), strict=True)
    if any(len(pieces) > 1 for pieces in entries):
        return [b"".join((_FIRST, varint(sum(map(len, pieces))), *pieces)) for pieces in examples]
    joined = list(map(b"".join, examples))
    heads = _heads(joined)
    return [heads[len(features)] + features for features in joined]


def stored_order(name: str) -> bytes:
    """Returns the sort key of protobuf's order of features: by name, but a longer name comes before its own prefix.

    (`_upb_mapsorter_cmpstr` of upb 4 to 6 compares everything but the lengths backwards.)
    """
    return name.encode() + b"\xff"


def _entries(name: str, kind: bytes, packed: Sequence[bytes]) -> Entries:
    heads = {length: _entry_head(name, kind, len(head) + length) + head for length, head in _heads(packed).items()}
    if max(heads) > _SMALL_BYTES:
        return [heads[len(value)] for value in packed], packed
    return ([heads[len(value)] + value for value in packed],)


def _long_varint(number: int) -> bytes:
    """Encodes like `varint`, but without its cache, which many different numbers would only churn."""
    pairs, digits = _pairs_of_digits(), b""
    while number >> 14:
        digits += pairs[number & 0x3FFF]
        number >>= 14
    return digits + varint(number)


@functools.cache
def _pairs_of_digits() -> Sequence[bytes]:
    """Returns the first two bytes of a varint, indexed by its lowest 14 bits."""
    return [bytes((bits & 0x7F | 0x80, bits >> 7 | 0x80)) for bits in range(1 << 14)]


def _heads(values: Iterable[bytes]) -> dict[int, bytes]:
    """Returns the bytes before a value as the first field of a message, by the length of the value."""
    return {length: _FIRST + varint(length) for length in set(map(len, values))}


def _numbers_entry(name: str, kind: bytes, packed: bytes) -> bytes:
    numbers = _FIRST + varint(len(packed)) + packed if packed else b""
    return _entry_head(name, kind, len(numbers)) + numbers


# Most features have values of only a few different lengths.
@functools.lru_cache(1 << 12)
def _entry_head(name: str, kind: bytes, length: int) -> bytes:
    """Returns the bytes of a feature up to its values, which take `length` bytes."""
    key, values = _key(name), kind + varint(length)
    value = b"\x12" + varint(len(values) + length)
    return b"".join((_FIRST, varint(len(key) + len(value) + len(values) + length), key, value, values))


@functools.cache
def _key(name: str) -> bytes:
    data = name.encode()
    return _FIRST + varint(len(data)) + data
