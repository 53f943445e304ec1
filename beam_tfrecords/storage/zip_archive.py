"""Reads only the central directory of a zip archive (PKWARE's APPNOTE 6.3.10), from front to back.

Python's zipfile keeps all entries in memory, at 700 bytes each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import IO, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage.members import (
    HEADER_BYTES,
    Member,
    Place,
    check_expansion,
    start_length,
    unpack_start,
)
from beam_tfrecords.storage.reading import reading

# End of directory, zip64 locator and end, and a directory entry (4.3.12 to 4.3.16).
_END = struct.Struct("<4s4H2LH")
_LOCATOR64 = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4s12xLL4Q")
_ENTRY = struct.Struct("<4sxB2xHH4x3L3H2x2xLL")
_MOST_16, _MOST_32 = (1 << 16) - 1, (1 << 32) - 1
# Largest name, extra field or comment.
_MOST_FIELD_BYTES = _MOST_16
_ENCRYPTED, _UTF8 = 1, 1 << 11
_STORED, _DEFLATED = 0, 8
_METHODS = {9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "XZ", 98: "PPMd"}
_UNIX, _MACOS = 3, 19
# Bytes of a member's content to read for recognizing an image.
_SNIFFED_BYTES = 1 << 12

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class _Entry:
    """An entry of the directory; sizes and offsets in bytes."""

    name: str
    flags: int
    method: int
    crc: int
    stored: int
    size: int
    mode: int
    offset: int


class ZipReader:
    """An open zip archive.

    Args:
      path: the archive.
      size: its size in bytes.
      version: its version.
      file: the open archive.

    Raises:
      SampleError: the file has no valid directory.
    """

    def __init__(self, path: str, size: int, version: str, file: IO[bytes]) -> None:
        self._path, self._length, self._version, self._file = path, size, version, file
        self._start, self._size, self._count, self._shift = self._read(self._find_directory)

    def members(self) -> Iterator[Member]:
        """See `Archive.members`."""
        entries, expanded = self._entries(), 0
        entry = next(entries, None)
        while entry is not None:
            error, following = None, None
            try:
                following = next(entries, None)
            except SampleError as raised:
                error = raised
            expanded += entry.size
            check_expansion(expanded, self._length)
            if not entry.name.endswith("/") and not stat.S_ISDIR(entry.mode):
                # Members usually follow each other without gaps, in directory order.
                is_next = following is not None and following.offset > entry.offset
                yield self._member(entry, end=following.offset if following and is_next else self._start)
            if error is not None:
                raise error
            entry = following

    def _member(self, entry: _Entry, *, end: int) -> Member:
        most = HEADER_BYTES + 2 * _MOST_FIELD_BYTES + entry.stored
        place = Place(
            self._path,
            self._version,
            entry.offset,
            min(end - entry.offset, most),
            entry.size,
            stored=entry.stored,
            crc=entry.crc,
            is_deflated=entry.method == _DEFLATED,
            failure=_failure(entry),
        )
        is_file = stat.S_IFMT(entry.mode) in (0, stat.S_IFREG)
        return Member(
            entry.name,
            entry.size,
            entry.offset,
            locate=lambda: place,
            chunks=functools.partial(self._first_bytes, place),
            # In an object store, peeking would cost a request per member.
            can_peek=not storage.has_scheme(self._path),
            kind="" if is_file else "link" if stat.S_ISLNK(entry.mode) else "special",
            failure=place.failure,
        )

    def _first_bytes(self, place: Place) -> Iterator[bytes]:
        length = start_length(place, _SNIFFED_BYTES)
        data = self._read(lambda: storage.read_range(place.file, place.offset, length, version=place.version))
        yield unpack_start(data, place, _SNIFFED_BYTES)

    def _find_directory(self) -> tuple[int, int, int, int]:
        """Returns the directory's start, size and number of entries, and the number of bytes before the archive."""
        length = min(self._length, _END.size + _MOST_FIELD_BYTES)
        self._file.seek(self._length - length)
        tail = self._file.read(length)
        at, found = tail.rfind(b"PK\x05\x06"), -1
        while at >= 0 and at + _END.size <= len(tail):
            behind = len(tail) - at - _END.size - _END.unpack_from(tail, at)[-1]
            if behind == 0 or (behind > 0 > found):  # A comment may contain the signature.
                found = at
            at = tail.rfind(b"PK\x05\x06", 0, at) if behind else -1
        if found < 0:
            raise _truncated("it has no directory at its end")
        _, disk, first_disk, _, count, size, offset, _ = _END.unpack_from(tail, found)
        if (disk or first_disk) and (disk, first_disk) != (_MOST_16, _MOST_16):
            raise _corrupt("it is one part of several; join them first: zip -s 0 first.zip --out whole.zip")
        end, (count, size, offset) = self._find_end64(self._length - length + found, (count, size, offset))
        start = end - size
        if start < offset:
            raise _truncated(f"its directory does not fit: {size:,} bytes at byte {offset:,}")
        return start, size, count, start - offset

    def _find_end64(self, end: int, found: tuple[int, int, int]) -> tuple[int, tuple[int, int, int]]:
        """Returns the position and values of the zip64 end of directory; the given values if there is none."""
        last = end - _LOCATOR64.size - _END64.size
        if last < 0:
            return end, found
        self._file.seek(end - _LOCATOR64.size)
        signature, _, offset, _ = _LOCATOR64.unpack(self._file.read(_LOCATOR64.size))
        if signature != b"PK\x06\x07":
            return end, found
        # The zip64 end is at the stated offset, or directly before the locator if other bytes precede the archive.
        for at in (min(offset, last), last):
            self._file.seek(at)
            signature, _, _, _, count, size, offset = _END64.unpack(self._file.read(_END64.size))
            if signature == b"PK\x06\x06":
                return at, (count, size, offset)
        raise _corrupt("there is no 64-bit end of the directory where it should be")

    def _entries(self) -> Iterator[_Entry]:
        """Yields the entries of the directory one at a time."""
        self._file.seek(self._start)
        left, count = self._size, 0
        while left > 0:
            at = self._start + self._size - left
            entry, length = self._read(functools.partial(self._read_entry, at))
            left -= length
            count += 1
            if left < 0:
                raise _corrupt(f"its directory is longer than stated, at byte {at:,}")
            yield entry
        # Programs without zip64 support write the number modulo 2**16.
        if (count - self._count) % (1 << 16):
            raise _corrupt(f"its directory has {count:,} entries and says {self._count:,}")

    def _read_entry(self, at: int) -> tuple[_Entry, int]:
        head = self._file.read(_ENTRY.size)
        if len(head) < _ENTRY.size or not head.startswith(b"PK\x01\x02"):
            raise _corrupt(f"there is no entry of the directory at byte {at:,}, where one should be")
        _, system, flags, method, crc, stored, size, *lengths, attributes, offset = _ENTRY.unpack(head)
        fields = self._file.read(sum(lengths))
        if len(fields) < sum(lengths):
            raise _corrupt(f"its directory is truncated at byte {at:,}")
        name, extra = fields[: lengths[0]], fields[lengths[0] : lengths[0] + lengths[1]]
        size, stored, offset = _read_zip64(extra, (size, stored, offset))
        offset += self._shift
        if offset + HEADER_BYTES + stored > self._start:
            raise _corrupt(f"its directory has a member that ends beyond the archive, at byte {at:,}")
        mode = attributes >> 16 if system in (_UNIX, _MACOS) else 0
        # Some programs for Windows write backslashes, which the format forbids.
        text = _decode(name, flags, extra).replace("\\", "/")
        return _Entry(text, flags, method, crc, stored, size, mode, offset), _ENTRY.size + len(fields)

    def _read(self, action: Callable[[], Result]) -> Result:
        with reading(lambda error: _corrupt(str(error))):
            return action()


@contextlib.contextmanager
def open_zip(path: str, *, size: int, version: str = "") -> Iterator[ZipReader]:
    """Opens an archive and finds its directory.

    Raises:
      SampleError: the archive cannot be read, or is not a zip archive.
      ChangedError: the archive is no longer this version.
      OSError: a service fault.
    """
    with reading():
        file = storage.open_read(path, version=version)
    with file:
        yield ZipReader(path, size, version, file)


def _failure(entry: _Entry) -> tuple[str, str] | None:
    """Returns (reason, detail) for a member that is known to be unreadable, else None."""
    if entry.flags & _ENCRYPTED:
        detail = "the member is encrypted; extract the archive with its password"
        return FailureReason.UNSUPPORTED_FORMAT.value, detail
    if entry.method not in (_STORED, _DEFLATED):
        name = _METHODS.get(entry.method, f"method {entry.method}")
        detail = f"the member is compressed with {name}; expected Deflate or none: extract the archive"
        return FailureReason.UNSUPPORTED_FORMAT.value, detail
    if entry.method == _STORED and entry.stored != entry.size:
        return FailureReason.CORRUPT.value, "the archive is damaged: a member that is not compressed has two sizes"
    return None


def _decode(name: bytes, flags: int, extra: bytes) -> str:
    """Decodes a member's name up to a NUL. A name without the UTF-8 flag is UTF-8, as macOS writes it, or cp437."""
    for kind, field in _fields(extra):
        # Info-ZIP's Unicode name, if its checksum matches this name (4.6.9).
        if kind == 0x7075 and field[:1] == b"\1" and int.from_bytes(field[1:5], "little") == zlib.crc32(name):
            return field[5:].decode("utf-8", "surrogateescape").partition("\0")[0]
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = name.decode("utf-8", "surrogateescape") if flags & _UTF8 else name.decode("cp437")
    return text.partition("\0")[0]


def _read_zip64(extra: bytes, values: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns size, stored size and offset; values beyond 32 bits come from an extra field (4.5.3)."""
    if _MOST_32 not in values:
        return values
    field = next((field for kind, field in _fields(extra) if kind == 1), b"")
    found = []
    for value in values:
        if value == _MOST_32 and len(field) >= 8:
            value, field = int.from_bytes(field[:8], "little"), field[8:]
        found.append(value)
    return found[0], found[1], found[2]


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<2H", extra)
        yield kind, extra[4 : 4 + length]
        extra = extra[4 + length :]


def _truncated(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.TRUNCATED, f"the archive is truncated, or not an archive: {detail}")


def _corrupt(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.CORRUPT, f"the archive is damaged: {detail}")
