"""The bytes of a `tf.train.Example`, as protobuf's deterministic serialization writes them.

    message Example { Features features = 1; }
    message Features { map<string, Feature> feature = 1; }
    message Feature { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }

Each list is `repeated value = 1`, numbers packed (tensorflow/core/example/feature.proto). Protobuf itself copies every
value into a message and from there into the result, which took 392 µs of an image of 500 KB; this takes 12.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

# Field 1 of a message, of any type with a length (protobuf.dev/programming-guides/encoding).
_FIRST: Final = b"\x0a"
# The entry's value, then its kind.
_BYTES, _FLOATS, _INTS = b"\x0a", b"\x12", b"\x1a"
_INT64_BITS = (1 << 64) - 1
# Copying a value of up to so many bytes takes less time than another piece.
_SMALL_BYTES = 4096

# The entries of a feature in each example of a batch, in pieces: one column, or two where values are too large to be
# copied more often than once.
Entries: TypeAlias = "tuple[Sequence[bytes], ...]"


@functools.lru_cache(1 << 14)
def varint(number: int) -> bytes:
    """A whole number of 0 to 2^64 - 1, seven bits to a byte, the lowest first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def bytes_entry(name: str, values: Sequence[bytes]) -> bytes:
    """The entry of a feature of bytes in one example."""
    pieces = [b""]
    for value in values:
        pieces += _FIRST + varint(len(value)), value
    pieces[0] = _entry_head(name, _BYTES, sum(map(len, pieces)))
    return b"".join(pieces)


def float_entry(name: str, values: Sequence[float]) -> bytes:
    """The entry of a feature of floats in one example; they are rounded to 32 bits."""
    return _numbers_entry(name, _FLOATS, struct.pack(f"<{len(values)}f", *values))


def int64_entry(name: str, values: Iterable[int]) -> bytes:
    """The entry of a feature of integers in one example, each of 64 bits with a sign."""
    return _numbers_entry(name, _INTS, b"".join([varint(value & _INT64_BITS) for value in values]))


def bytes_entries(name: str, values: Sequence[bytes]) -> Entries:
    """The entries of a feature that has one of the values in each example; so are those below."""
    return _entries(name, _BYTES, values)


def float_entries(name: str, values: Sequence[float]) -> Entries:
    """See `bytes_entries`, and `float_entry`."""
    packed = struct.pack(f"<{len(values)}f", *values)
    return _entries(name, _FLOATS, [packed[start : start + 4] for start in range(0, len(packed), 4)])


def int64_entries(name: str, values: Sequence[int]) -> Entries:
    """See `bytes_entries`, and `int64_entry`."""
    bits = [value & _INT64_BITS for value in values]
    return _entries(name, _INTS, [varint(one) if one >> 14 == 0 else _long_varint(one) for one in bits])


def join_entries(entries: Sequence[Entries]) -> list[bytes]:
    """The examples of the entries of each feature, in the order of `stored_order`."""
    examples = zip(*itertools.chain.from_iterable(entries), strict=True)
    if any(len(pieces) > 1 for pieces in entries):
        return [b"".join((_FIRST, varint(sum(map(len, pieces))), *pieces)) for pieces in examples]
    joined = list(map(b"".join, examples))
    heads = _heads(joined)
    return [heads[len(features)] + features for features in joined]


def stored_order(name: str) -> bytes:
    """Sorts features as protobuf stores them: by their names, but what goes on behind another name comes before it.

    (`_upb_mapsorter_cmpstr` of upb 4 to 6, which compares backwards all but the lengths.)
    """
    return name.encode() + b"\xff"


def _entries(name: str, kind: bytes, packed: Sequence[bytes]) -> Entries:
    heads = {length: _entry_head(name, kind, len(head) + length) + head for length, head in _heads(packed).items()}
    if max(heads) > _SMALL_BYTES:
        return [heads[len(value)] for value in packed], packed
    return ([heads[len(value)] + value for value in packed],)


def _long_varint(number: int) -> bytes:
    """`varint` of many different numbers, which would only push each other out of its cache."""
    pairs, digits = _pairs_of_digits(), b""
    while number >> 14:
        digits += pairs[number & 0x3FFF]
        number >>= 14
    return digits + varint(number)


@functools.cache
def _pairs_of_digits() -> Sequence[bytes]:
    """The first two digits of a number, by its lowest 14 bits."""
    return [bytes((bits & 0x7F | 0x80, bits >> 7 | 0x80)) for bits in range(1 << 14)]


def _heads(values: Iterable[bytes]) -> dict[int, bytes]:
    """Length of a value -> what is before it, as the first field of a message."""
    return {length: _FIRST + varint(length) for length in set(map(len, values))}


def _numbers_entry(name: str, kind: bytes, packed: bytes) -> bytes:
    numbers = _FIRST + varint(len(packed)) + packed if packed else b""
    return _entry_head(name, kind, len(numbers)) + numbers


# Most features have values of a few different lengths.
@functools.lru_cache(1 << 12)
def _entry_head(name: str, kind: bytes, length: int) -> bytes:
    """The entry of a feature up to its values, which take `length` bytes."""
    key, values = _key(name), kind + varint(length)
    value = b"\x12" + varint(len(values) + length)
    return b"".join((_FIRST, varint(len(key) + len(value) + len(values) + length), key, value, values))


@functools.cache
def _key(name: str) -> bytes:
    data = name.encode()
    return _FIRST + varint(len(data)) + data
