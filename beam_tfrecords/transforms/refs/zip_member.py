"""Unpacks the content of a member of a zip archive from its bytes in the archive. All functions are pure."""

from __future__ import annotations

import struct
import zlib

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.refs.sample_refs import ZipMember

# The fields that are read from the local header: signature, lengths of name and extra field (APPNOTE 4.3.7).
_HEADER = struct.Struct("<4s22x2H")
HEADER_BYTES = _HEADER.size


def unpack_member(data: bytes, member: ZipMember) -> bytes:
    """Returns the content of a member, and checks its size and CRC-32 against the central directory.

    Args:
      data: the byte range of the locator.

    Raises:
      SampleError: the member is damaged or truncated.
    """
    stored = _stored(data, member)
    if len(stored) < member.stored:
        raise _corrupt("its bytes run into what follows it")
    content = stored
    if member.is_deflated:
        stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        try:
            content = stream.decompress(stored, member.size + 1)
        except zlib.error as error:
            raise _corrupt(str(error)) from error
        if len(content) <= member.size and not stream.eof:
            raise SampleError(Stage.READ, FailureReason.TRUNCATED, "the compressed member of the archive is cut")
    if len(content) != member.size:
        raise _corrupt(f"it does not have the {member.size:,} bytes that the archive says")
    if zlib.crc32(content) != member.crc:
        raise _corrupt(f"its CRC-32 is {zlib.crc32(content):08x}, and the archive says {member.crc:08x}")
    return content


def unpack_start(data: bytes, member: ZipMember, size: int) -> bytes:
    """Returns the first `size` bytes of a member's content, from the start of its range; fewer if it is damaged."""
    try:
        stored = _stored(data, member)
        if not member.is_deflated:
            return stored[:size]
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(stored, size)
    except (SampleError, zlib.error):
        return b""


def content_start(data: bytes) -> int:
    """Returns the offset of a member's content in its range, from the first bytes of the range.

    Raises:
      SampleError: the range does not start with a local header.
    """
    if len(data) < HEADER_BYTES:
        raise _corrupt("its local header is cut")
    signature, name, extra = _HEADER.unpack_from(data)
    if signature != b"PK\x03\x04":
        raise _corrupt("there is no local header where the archive says")
    return HEADER_BYTES + int(name) + int(extra)


def _stored(data: bytes, member: ZipMember) -> bytes:
    start = content_start(data)
    return data[start : start + member.stored]


def _corrupt(detail: str) -> SampleError:
    return SampleError(Stage.READ, FailureReason.CORRUPT, f"the member of the archive is damaged: {detail}")
