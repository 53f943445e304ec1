"""The TFRecord container: a sequence of framed records.

Format (tensorflow/core/lib/io/record_writer.h): uint64 length, uint32 masked CRC32C of the length,
the data, uint32 masked CRC32C of the data; all little-endian.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Literal, TypeAlias, cast

from beam_tfrecords import crc32c

Compression: TypeAlias = Literal["none", "gzip"]

HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
_MASK_DELTA = 0xA282EAD8


class RecordError(ValueError):
    """A record is damaged.

    Attributes:
      record: number of the record in its file, from 0.
      offset: start of the record in the (uncompressed) file, in bytes.
      ends: whether the start of the next record is unknown, so that all later records are lost too.
    """

    def __init__(self, message: str, *, record: int, offset: int, ends: bool = True) -> None:
        super().__init__(message)
        self.record = record
        self.offset = offset
        self.ends = ends


@dataclasses.dataclass(frozen=True)
class Record:
    """A record that was read: its number from 0, its offset in bytes, its data."""

    number: int
    offset: int
    data: bytes

    @property
    def length(self) -> int:
        """Size of the record in its file in bytes, frame included."""
        return len(self.data) + FRAME_BYTES


def masked_crc32c(data: bytes) -> int:
    """Returns the CRC-32C (Castagnoli) as TFRecord stores it: rotated right by 15 bits, plus a constant."""
    crc = crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def open_frame(framed: bytes, begin: int, length: int) -> tuple[bytes, int] | None:
    """Returns the data of a framed record and its masked CRC, or None if its length or its CRC is wrong.

    Args:
      framed: framed records.
      begin: offset of the record in `framed`, in bytes.
      length: size of the record in bytes, frame included.
    """
    end = begin + length - FOOTER_BYTES
    data, footer = framed[begin + HEADER_BYTES : end], framed[end : end + FOOTER_BYTES]
    is_whole = int.from_bytes(framed[begin : begin + 8], "little") == len(data) == length - FRAME_BYTES
    crc = masked_crc32c(data)
    return (data, crc) if is_whole and int.from_bytes(footer, "little") == crc and len(footer) == FOOTER_BYTES else None


def frame(examples: Sequence[bytes], crcs: Sequence[int]) -> list[tuple[bytes, bytes, bytes]]:
    """Returns three pieces for each framed record: the header, the data itself (not copied), the footer.

    Args:
      examples: serialized examples.
      crcs: the masked CRC of each example.
    """
    footers = struct.pack(f"<{len(crcs)}I", *crcs)
    pieces = (footers[start : start + FOOTER_BYTES] for start in range(0, len(footers), FOOTER_BYTES))
    return list(zip(map(_header, map(len, examples)), examples, pieces, strict=True))


# Small records have only a few different lengths.
@functools.lru_cache(1024)
def _header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc32c(packed))


def read_records(file: IO[bytes]) -> Iterator[Record]:
    """Reads framed records from an uncompressed stream and checks their CRCs.

    Raises:
      RecordError: a record is damaged.
    """
    for record in scan_records(file):
        if isinstance(record, RecordError):
            raise record
        yield record


def scan_records(
    file: IO[bytes], *, offsets: Sequence[int] = (), most_bytes: int = sys.maxsize
) -> Iterator[Record | RecordError]:
    """Reads like `read_records`, but yields errors and continues after a damaged record.

    Args:
      file: an uncompressed stream.
      offsets: start of each record, from an index. Needed to find the next record after a damaged header; without
        offsets, the scan ends there.
      most_bytes: size limit of a record; a larger one counts as damaged and is not read.
    """
    number = offset = 0
    while header := _read_exactly(file, HEADER_BYTES):
        error = _header_error(header)
        if error:
            ends = number + 1 >= len(offsets) or offsets[number + 1] < offset + HEADER_BYTES
            yield RecordError(error, record=number, offset=offset, ends=ends)
            if ends:
                return
            number += 1
            _read_exactly(file, offsets[number] - offset - HEADER_BYTES)
            offset = offsets[number]
            continue
        (length,) = struct.unpack("<Q", header[:8])
        if length > most_bytes:
            yield RecordError(f"{length:,} bytes announced, {most_bytes:,} at most", record=number, offset=offset)
            return
        data = _read_exactly(file, length)
        footer = _read_exactly(file, FOOTER_BYTES)
        if len(data) != length or len(footer) != FOOTER_BYTES:
            yield RecordError(
                f"truncated: {length} bytes of data and {FOOTER_BYTES} of CRC announced, "
                f"{len(data) + len(footer)} there",
                record=number,
                offset=offset,
            )
            return
        (stored,) = struct.unpack("<I", footer)
        if stored == masked_crc32c(data):
            yield Record(number, offset, data)
        else:
            yield RecordError("the data's CRC does not match", record=number, offset=offset, ends=False)
        number += 1
        offset += length + FRAME_BYTES


def open_stream(file: IO[bytes], compression: Compression) -> IO[bytes]:
    """Returns the uncompressed stream of an open shard."""
    return cast(IO[bytes], gzip.GzipFile(fileobj=file)) if compression == "gzip" else file


def _header_error(header: bytes) -> str | None:
    if len(header) != HEADER_BYTES:
        return f"truncated: {HEADER_BYTES} bytes of header expected, {len(header)} there"
    (stored,) = struct.unpack("<I", header[8:])
    if stored != masked_crc32c(header[:8]):
        return "the length's CRC does not match"
    return None


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    """Reads `size` bytes, or fewer at the end of the stream (object stores may return data in pieces)."""
    data = file.read(size)
    if len(data) == size or not data:
        return data
    pieces = [data]
    missing = size - len(data)
    while missing and (data := file.read(missing)):
        pieces.append(data)
        missing -= len(data)
    return b"".join(pieces)
