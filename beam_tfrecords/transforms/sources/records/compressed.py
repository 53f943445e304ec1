"""Recognizes compressed record files by their first bytes, whatever their names, and decompresses them."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import IO, cast

from beam_tfrecords.tfrecord import HEADER_BYTES, masked_crc32c

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
