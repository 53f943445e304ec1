"""Members of archives: their places, which workers read without the directory, and the limit of their expansion."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import posixpath
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage.entries import FileEntry, StorageError

# An archive that expands beyond both this size and this ratio counts as a zip bomb. Apache POI uses the same ratio;
# photos hardly compress at all.
FREE_BYTES = 1 << 30
_MOST_EXPANSION = 100
# Extensions of archives that are read as folders; the files of a split set end with a number.
_ADDRESS = re.compile(
    r"(?P<archive>.*?\.(?:zip|tar|tgz|tzst|tar\.(?:gz|bz2|xz|zst))(?:-\d{5,}-of-\d{5,})?)#(?:/(?P<member>.*))?",
    re.IGNORECASE | re.DOTALL,
)
ZIP_NAME = re.compile(r"\.zip(?:-\d{5,}-of-\d{5,})?$", re.IGNORECASE)
# Begins the version of a member.
_MARK = "member\n"
# The fields that are read from the local header of a zip archive: signature, lengths of name and extra field (APPNOTE
# 4.3.7).
_HEADER = struct.Struct("<4s22x2H")
HEADER_BYTES = _HEADER.size
_expanding: contextvars.ContextVar[str] = contextvars.ContextVar("expanding", default="")
# Largest name or extra field.
_MOST_FIELD_BYTES = (1 << 16) - 1


class MemberError(StorageError):
    """A member, or the archive around it, is damaged or of an unsupported kind.

    Attributes:
      path: the file or the member.
      reason: why, as a sample is rejected for it.
      detail: the description, without the path.
    """

    def __init__(self, path: str, reason: FailureReason, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path, self.reason, self.detail = path, reason, detail

    def __reduce__(self) -> tuple[type[MemberError], tuple[str, FailureReason, str]]:
        return type(self), (self.path, self.reason, self.detail)


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a member's bytes; the version of its file says it.

    Attributes:
      file: the archive, or its expanded copy.
      version: version of this file.
      offset: offset of the first byte. In a zip archive, the range starts with the local header, and may extend past
        the content.
      length: length of the range in bytes.
      size: bytes of the content.
      stored: bytes of the content in a zip archive; -1 in a tar archive.
      crc: CRC-32 of the content in a zip archive.
      is_deflated: whether the content is a raw DEFLATE stream (RFC 1951).
      failure: (reason, detail) of a member that cannot be read.
    """

    file: str
    version: str
    offset: int
    length: int
    size: int
    stored: int = -1
    crc: int = 0
    is_deflated: bool = False
    failure: tuple[str, str] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the content is a byte range of the file."""
        return self.stored < 0 and self.failure is None

    def pack(self) -> str:
        """Returns the version of the member's file."""
        kind = "" if self.stored < 0 else "deflated" if self.is_deflated else "stored"
        words = f"{self.offset} {self.length} {self.size} {self.stored} {self.crc} {kind}"
        if self.failure is not None:
            words = f"{words} {' '.join(self.failure)}"
        return f"{_MARK}{words}\n{self.version}\n{self.file}"

    @classmethod
    def unpack(cls, version: str) -> Place:
        """Returns the place that `pack` wrote."""
        line, version, file = version.removeprefix(_MARK).split("\n", 2)
        words = line.split(" ", 7)
        offset, length, size, stored, crc = map(int, words[:5])
        failure = (words[6], words[7]) if len(words) > 6 else None
        return cls(file, version, offset, length, size, stored, crc, words[5] == "deflated", failure)


def is_place(version: str) -> bool:
    """Whether the version of a file includes the position of a member."""
    return version.startswith(_MARK)


@dataclasses.dataclass(frozen=True)
class Member:
    """A member of an archive, other than a folder. Its functions are valid until the next member is read.

    Attributes:
      name: name in the archive.
      size: bytes.
      offset: offset of the member in bytes, unique in the archive.
      locate: finds the place of the bytes, which can be read there once all members are listed. Raises SampleError if
        the archive ends in the member.
      chunks: yields the bytes in pieces; of a zip member only the first ones.
      can_peek: whether calling `chunks` is cheap, and `locate` still works afterwards.
      kind: kind of a member that is not a file: "link" or "special"; "" for a file.
      failure: `Place.failure`.
    """

    name: str
    size: int
    offset: int
    locate: Callable[[], Place]
    chunks: Callable[[], Iterator[bytes]]
    can_peek: bool = True
    kind: str = ""
    failure: tuple[str, str] | None = None

    def entry(self, archive: str, fingerprint: str) -> FileEntry:
        """Returns the member as a file.

        Args:
          archive: path of the archive.
          fingerprint: fingerprint of the archive.

        Raises:
          SampleError: the archive ends in the member.
        """
        path = f"{archive}#/{member_path(self.name)}"
        return FileEntry(path, self.size, 0, f"{fingerprint}@{self.offset}", self.locate().pack())


class Archive(Protocol):
    """An open archive."""

    def members(self) -> Iterator[Member]:
        """Yields the members other than folders, in bounded memory.

        Raises:
          SampleError: the archive is damaged or unreadable from here on; the members so far are valid.
        """


def archive_of(path: str) -> str | None:
    """Returns the archive of an address such as `photos.zip#/cat/1.jpg` or `photos.zip#`; None for other paths."""
    match = _ADDRESS.fullmatch(path) if "#" in path else None
    return match["archive"] if match else None


def split_address(path: str) -> tuple[str, str]:
    """Returns the archive of an address, and the path in it; "" for the archive itself."""
    match = _ADDRESS.fullmatch(path)
    assert match
    return match["archive"], (match["member"] or "").strip("/")


def shown_member(path: str) -> str:
    """Returns an address as messages and the index show it: `photos.zip#cat/1.jpg`."""
    match = _ADDRESS.fullmatch(path) if "#" in path else None
    return f"{match['archive']}#{match['member']}" if match and match["member"] else path


def member_path(name: str) -> str:
    """Returns a member's name as a relative path without `.` and `..`. Used as a key; no file is written there."""
    path = posixpath.normpath(f"/{name}").lstrip("/")
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def expansion_folder() -> str:
    """Returns the folder of `expanding_into`; "" for a temporary one."""
    return _expanding.get()


@contextlib.contextmanager
def expanding_into(folder: str) -> Iterator[None]:
    """Expands compressed archives into a folder that workers can read, instead of into a temporary one."""
    token = _expanding.set(folder)
    try:
        yield
    finally:
        _expanding.reset(token)


def check_expansion(expanded: int, size: int) -> None:
    """Checks that an archive is not a zip bomb.

    Args:
      expanded: expanded size so far, in bytes.
      size: size of the archive in bytes.

    Raises:
      SampleError: the archive expands too much.
    """
    if expanded > max(FREE_BYTES, _MOST_EXPANSION * size):
        detail = (
            f"the archive of {size:,} bytes expands to more than {_MOST_EXPANSION} times its size; "
            "if this is intended, extract it"
        )
        raise SampleError(Stage.LIST, FailureReason.TOO_LARGE_FILE, detail)


def unpack_member(data: bytes, place: Place) -> bytes:
    """Returns the content of a member of a zip archive, and checks its size and CRC-32 against the directory.

    Args:
      data: the byte range of the place.

    Raises:
      MemberError: the member is damaged or truncated.
    """
    stored = _stored(data, place)
    if len(stored) < place.stored:
        raise _corrupt(place, "its bytes overlap the next member")
    content = stored
    if place.is_deflated:
        stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        try:
            content = stream.decompress(stored, place.size + 1)
        except zlib.error as error:
            raise _corrupt(place, str(error)) from error
        if len(content) <= place.size and not stream.eof:
            detail = "the compressed archive member is truncated"
            raise MemberError(place.file, FailureReason.TRUNCATED, detail)
    check_content(len(content), zlib.crc32(content), place)
    return content


def check_content(size: int, crc: int, place: Place) -> None:
    """Checks size and CRC-32 of the content of a member of a zip archive.

    Raises:
      MemberError: they differ from the directory.
    """
    if size != place.size:
        raise _corrupt(place, f"it does not have the {place.size:,} bytes that the archive says")
    if crc != place.crc:
        raise _corrupt(place, f"its CRC-32 is {crc:08x}, and the archive says {place.crc:08x}")


def start_length(place: Place, size: int) -> int:
    """Returns the length of the range that holds the first `size` bytes of a member of a zip archive."""
    return min(place.length, HEADER_BYTES + 2 * _MOST_FIELD_BYTES + size)


def unpack_start(data: bytes, place: Place, size: int) -> bytes:
    """Returns the first `size` bytes of a member's content, from the start of its range; fewer if it is damaged."""
    try:
        stored = _stored(data, place)
        if not place.is_deflated:
            return stored[:size]
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(stored, size)
    except (MemberError, zlib.error):
        return b""


def content_start(data: bytes, place: Place) -> int:
    """Returns the offset of a member's content in its range, from the first bytes of the range.

    Raises:
      MemberError: the range does not start with a local header.
    """
    if (start := local_header_length(data)) is None:
        is_cut = len(data) < HEADER_BYTES
        raise _corrupt(
            place, "its local header is cut" if is_cut else "the archive has no local header at the stated place"
        )
    return start


def local_header_length(data: bytes) -> int | None:
    """Returns the length of a local header of a zip archive; None if there is none."""
    if len(data) < HEADER_BYTES:
        return None
    signature, name, extra = _HEADER.unpack_from(data)
    return HEADER_BYTES + int(name) + int(extra) if signature == b"PK\x03\x04" else None


def _stored(data: bytes, place: Place) -> bytes:
    start = content_start(data, place)
    return data[start : start + place.stored]


def _corrupt(place: Place, detail: str) -> MemberError:
    return MemberError(place.file, FailureReason.CORRUPT, f"the archive member is damaged: {detail}")
