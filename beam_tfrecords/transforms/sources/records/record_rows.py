"""Reads the records of TFRecord files as rows.

References point to the image inside its record; images of compressed files are copied to a staging file.
"""

from __future__ import annotations

import gzip
import io
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, cast

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.parse import parse_plain_example
from beam_tfrecords.storage.members import check_expansion
from beam_tfrecords.storage.reading import reading
from beam_tfrecords.tfrecord import HEADER_BYTES, Record, RecordError, masked_crc32c, scan_records
from beam_tfrecords.transforms.sources.names import is_utf8
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.tables.cells import read_cell
from beam_tfrecords.transforms.sources.tables.table import FirstRows

_CHUNK_BYTES = 1 << 16


def open_records(file: IO[bytes]) -> tuple[IO[bytes], bool]:
    """Returns the stream of records in an open file, and whether the file is compressed, with GZIP or ZLIB.

    A record's length may start with the same bytes as a compressed file, but then the length's CRC matches.
    """
    header = file.read(HEADER_BYTES)
    file.seek(0)
    if not is_header(header):
        if header[:2] == b"\x1f\x8b":
            return cast(IO[bytes], gzip.GzipFile(fileobj=file)), True
        # RFC 1950: method 8 with a window of up to 32 KiB, and a multiple of 31.
        if header[:1] and header[0] & 0x8F == 8 and int.from_bytes(header[:2], "big") % 31 == 0:
            return cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, _ZlibFile(file)))), True
    return file, False


def is_header(data: bytes) -> bool:
    """Whether bytes are the header of a record: a length, and the masked CRC of the length."""
    return len(data) == HEADER_BYTES and int.from_bytes(data[8:], "little") == masked_crc32c(data[:8])


class _ZlibFile(io.RawIOBase):
    """The decompressed content of a ZLIB file.

    Args:
      file: the compressed file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._inflater = zlib.decompressobj()

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """See `io.RawIOBase`.

        Raises:
          EOFError, zlib.error: the file is cut or damaged.
        """
        while not self._inflater.eof:
            data = self._inflater.unconsumed_tail or self._file.read(_CHUNK_BYTES)
            piece = self._inflater.decompress(data, len(buffer))
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)
            if not data and not self._inflater.eof:
                raise EOFError("the ZLIB file ended before its end mark")
        if self._inflater.unused_data or self._file.read(1):
            raise zlib.error("there is data after the end of the ZLIB stream")
        return 0


# Features with the name of the image's file, as TensorFlow's models and datasets name them.
FILE_NAMES = ("image/filename", "filename", "file_name")
# Limit for a record, which is kept in memory; no image is that large, so a longer record is damaged.
_MOST_BYTES = 1 << 30
# Number of valid records for finding the features.
_RECORDS = 32
# The search for features stops earlier after this many numbers in lists.
_MOST_NUMBERS = 1 << 22
_MOST_TRIED = 1000


def file_name(row: Mapping[str, Any]) -> str:
    """Returns the name of the image's file, which ends the key of a record, without folders; "" if there is none."""
    for feature in FILE_NAMES:
        value = row.get(feature)
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        if isinstance(text, str) and is_utf8(text) and (name := text.rpartition("/")[2].strip()):
            return name
    return ""


def corrupt(error: RecordError) -> SampleError:
    """Returns the error of a damaged record."""
    detail = f"record {error.record} at byte {error.offset:,}: {error}"
    return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)


def scan_file(partition: Partition, *, offsets: Sequence[int] = ()) -> Iterator[tuple[Record | RecordError, bool]]:
    """Yields the records of a file, each with whether the file is compressed.

    Args:
      partition: the file.
      offsets: as in `scan_records`.

    Raises:
      SampleError: the file cannot be read.
    """
    end = 0

    def describe(error: Exception) -> SampleError:
        detail = f"the compressed file is damaged behind byte {end:,} of its records: {error}"
        return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)

    with reading(describe), storage.open_read(partition.uri, version=partition.version) as file:
        stream, is_compressed = open_records(file)
        most = _MOST_BYTES if is_compressed else min(partition.size, _MOST_BYTES)
        for record in scan_records(stream, most_bytes=most, offsets=offsets):
            check_expansion(record.offset, partition.size)
            yield record, is_compressed
            end = record.offset + (record.length if isinstance(record, Record) else 0)


def read_first_records(partition: Partition, *, most: int = _RECORDS) -> FirstRows:
    """Reads the first valid records of a file.

    Args:
      partition: the file.
      most: number of records that are enough.

    Raises:
      SampleError: there are no records, or all first records are damaged.
    """
    rows: list[dict[str, Any]] = []
    types: dict[str, str] = {}
    damage, numbers = "", 0
    try:
        for record, _ in itertools.islice(scan_file(partition), _MOST_TRIED):
            if isinstance(record, RecordError):
                damage = damage or f"record {record.record}: {record}"
                continue
            try:
                features = parse_plain_example(record.data)
            except ValueError as error:
                damage = damage or str(error)
                continue
            rows.append({name: read_cell(feature) for name, feature in features.items()})
            types |= {name: kind for name, (kind, _) in features.items() if kind}
            numbers += sum(len(values) for kind, values in features.values() if kind != "bytes")
            if len(rows) >= most or numbers > _MOST_NUMBERS:
                break
    except SampleError as error:
        damage = damage or error.detail
    # Ignores damaged records if some are valid, because the listing rejects the damaged ones.
    if not rows:
        reason = FailureReason.CORRUPT if damage else FailureReason.EMPTY
        raise SampleError(Stage.LIST, reason, damage or "it has no record")
    return FirstRows(partition.uri, tuple(types), rows, column_types=types)
