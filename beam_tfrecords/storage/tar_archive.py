"""Reads tar archives, plain or compressed, from front to back; never mistakes damage for the end of the archive."""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import lzma
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeAlias, TypeVar, cast

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage, describe_exception
from beam_tfrecords.storage.members import Member, Place, check_expansion
from beam_tfrecords.storage.reading import reject

_MOST_MAGIC_BYTES = 10
# Most zeros after the last member: an end marker of two blocks, and the padding of a record of 20 blocks. A file that
# was allocated but not completely written has more.
_MOST_PADDING = (2 + 20) * 512
# Limit for all headers of a member, with its long name and sparse map, which tarfile keeps in memory.
_MOST_HEADER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 18
_OPTIONS: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}
# `Member.failure` of a member with holes.
_HOLES = FailureReason.UNSUPPORTED_FORMAT.value, "the member has holes (`tar --sparse`); extract the archive"

# Starts a file; returns its path, and the function that appends bytes to it.
StartCopy: TypeAlias = Callable[[], tuple[str, Callable[[bytes], Any]]]
Result = TypeVar("Result")


def _open_zstd(file: IO[bytes]) -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)


_DECOMPRESSORS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    rb"\x1f\x8b": gzip.open,
    rb"BZh[1-9]1AY&SY": bz2.open,
    rb"\xfd7zXZ\x00": lzma.open,
    # A frame, or the skippable frame that pzstd writes first (RFC 8878, 3.1).
    rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18": _open_zstd,
}


class TarReader:
    """An open tar archive, plain or decompressed from front to back.

    Args:
      path: file with the plain bytes.
      size: size of the archive in bytes.
      version: version of this file.
      stream: the plain bytes.
      is_copied: whether the bytes are copied to the file while they are read.

    Raises:
      SampleError: the first header is damaged.
    """

    def __init__(self, path: str, size: int, version: str, stream: IO[bytes], *, is_copied: bool = False) -> None:
        self._path, self._size, self._version, self._is_copied = path, size, version, is_copied
        self._stream = _Metered(stream)
        self._tar = self._read(
            0, lambda: tarfile.TarFile(fileobj=cast(IO[bytes], self._stream), tarinfo=_TarHeader, **_OPTIONS)
        )

    def members(self) -> Iterator[Member]:
        """See `Archive.members`."""
        while (member := self._next()) is not None:
            self._tar.members = []  # type: ignore[attr-defined]  # Otherwise tarfile keeps all headers.
            if member.size < 0 or self._tar.offset < member.offset_data:
                raise _corrupt("a member of negative size", member.offset)
            check_expansion(self._tar.offset, self._size)
            if not member.isdir():
                yield self._member(member)
        # Reading to the end also verifies the checksums of a compressed archive.
        start = self._tar.offset
        while rest := self._read(start, lambda: self._stream.read(_CHUNK_BYTES)):
            if rest.strip(b"\0"):
                raise _corrupt("there are bytes after the end-of-archive marker, such as a second archive", start)
            check_expansion(self._stream.tell(), self._size)
            if self._stream.tell() - start > _MOST_PADDING:
                raise _corrupt("it has more zeros after its last member than end a tar archive", start)

    def _member(self, member: tarfile.TarInfo) -> Member:
        is_link = member.islnk() or member.issym()
        return Member(
            member.name,
            member.size,
            member.offset_data,
            locate=functools.partial(self._locate, member),
            chunks=functools.partial(self._chunks, member),
            can_peek=not self._is_copied,
            kind="link" if is_link else "" if member.isreg() else "special",
            failure=_HOLES if member.issparse() else None,
        )

    def _locate(self, member: tarfile.TarInfo) -> Place:
        """See `Member.locate`."""
        end = self._tar.offset if member.issparse() else member.offset_data + member.size
        if self._is_copied:
            self._read(member.offset_data, lambda: self._stream.seek(end))
        elif end > self._size:
            raise _truncated(self._size)
        start = member.offset_data
        failure = _HOLES if member.issparse() else None
        return Place(self._path, self._version, start, end - start, member.size, failure=failure)

    def _next(self) -> tarfile.TarInfo | None:
        self._stream.left = _MOST_HEADER_BYTES
        member = self._read(self._tar.offset, self._tar.next)
        self._stream.left = sys.maxsize
        return member

    def _chunks(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        file = self._tar.extractfile(member)
        assert file is not None
        while chunk := self._read(member.offset_data, lambda: file.read(_CHUNK_BYTES)):
            yield chunk

    def _read(self, at: int, action: Callable[[], Result]) -> Result:
        return _read(self._size, at, action)


@contextlib.contextmanager
def open_tar(path: str, *, size: int, version: str = "", copy: StartCopy | None = None) -> Iterator[TarReader]:
    """Opens an archive, detects compression by its first bytes, and reads its first header.

    Args:
      path: the archive.
      size: its size in bytes.
      version: its version.
      copy: starts the file that receives the plain bytes of a compressed archive while its members are read. Without a
        copy, members of a compressed archive have no place.

    Raises:
      SampleError: the archive cannot be read, or is not a tar archive.
      ChangedError: the archive is no longer this version.
      OSError: a service fault.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_read(size, 0, lambda: storage.open_read(path, version=version)))
        magic = _read(size, 0, lambda: file.read(_MOST_MAGIC_BYTES))
        file.seek(0)
        decompress = next((opener for pattern, opener in _DECOMPRESSORS.items() if re.match(pattern, magic)), None)
        if decompress is None:
            yield TarReader(path, size, version, file)
            return
        target, write = copy() if copy else ("", lambda _: None)
        stream = _Copied(stack.enter_context(decompress(file)), write)
        yield TarReader(target, size, "", cast(IO[bytes], stream), is_copied=True)


class _Copied:
    """A stream that can only be read forward, with a function that receives all of its bytes."""

    def __init__(self, stream: IO[bytes], write: Callable[[bytes], Any]) -> None:
        self._stream, self._write = stream, write
        self._position = 0

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> int:
        assert position >= self._position
        while self._position < position:
            if not self.read(min(position - self._position, _CHUNK_BYTES)):
                raise EOFError
        return position

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._position += len(data)
        self._write(data)
        return data


class _TarHeader(tarfile.TarInfo):
    """A header that raises an error if damaged; plain tarfile treats a damaged header as the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> _TarHeader:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # The end-of-archive marker.
            raise
        except tarfile.HeaderError as error:
            if not archive.fileobj.read(1):
                raise EOFError from error
            raise tarfile.ReadError(str(error)) from error

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _TarHeader:
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0:
            raise tarfile.ReadError(f"an invalid header: {header.size:,} bytes")
        return header


class _Metered:
    """A stream with a limit on the bytes to read.

    Attributes:
      left: remaining bytes.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.left = _MOST_HEADER_BYTES
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        if size > self.left:
            raise tarfile.ReadError(f"headers of more than {_MOST_HEADER_BYTES:,} bytes")
        data = self._stream.read(size)
        self.left -= len(data)
        return data


def _read(size: int, at: int, action: Callable[[], Result]) -> Result:
    """Runs a read action, and turns exceptions of tarfile and decompressors into `SampleError`.

    Args:
      size: size of the archive in bytes.
      at: byte offset of the read in the uncompressed archive.
    """
    try:
        return action()
    except Exception as error:  # Damage makes tarfile raise ValueError, IndexError, RecursionError and others.
        reject(error, functools.partial(_describe, size, at))
        raise


def _describe(size: int, at: int, error: Exception) -> SampleError:
    if isinstance(error, EOFError) or "end of data" in str(error):
        return _truncated(size)
    return _corrupt(describe_exception(error), at)


def _truncated(size: int) -> SampleError:
    detail = f"the archive ends at byte {size:,}, before its end-of-archive marker"
    return SampleError(Stage.LIST, FailureReason.TRUNCATED, detail)


def _corrupt(detail: str, at: int) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.CORRUPT, f"the archive is damaged at byte {at:,}: {detail}")
