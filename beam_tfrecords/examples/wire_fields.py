"""Reads the fields of serialized protobuf messages without their classes. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator

# Wire types (protobuf.dev/programming-guides/encoding): varint, 8 bytes, length-delimited, 4 bytes.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes | None]]:
    """Yields the number and the value of each field of a message.

    The value is an integer for a varint, bytes for a field with a length, and None for a number of fixed size.

    Raises:
      ValueError: the data is not a message.
    """
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        if kind == _BYTES:
            length, at = _read_varint(message, at)
        elif not length:
            raise ValueError(f"a field of the unknown wire type {kind}")
        if at + length > len(message):
            raise ValueError("a field ends beyond its message")
        yield number, message[at : at + length] if kind == _BYTES else None
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Returns a varint and the position after it."""
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("a number does not end")
