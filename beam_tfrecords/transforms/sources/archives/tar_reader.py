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
from typing import IO, Any, TypeVar, cast

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage, describe_exception
from beam_tfrecords.transforms.refs.sample_refs import Range
from beam_tfrecords.transforms.sources.archives.members import Member, check_expansion
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles
from beam_tfrecords.transforms.sources.reading import reject

_MOST_MAGIC_BYTES = 10
# Most zeros after the last member: an end marker of two blocks, and the padding of a record of 20 blocks. A file that
# was allocated but not completely written has more.
_MOST_PADDING = (2 + 20) * 512
# Limit for all headers of a member, with its long name and sparse map, which tarfile keeps in memory.
_MOST_HEADER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 18

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
    """An open tar archive.

    Raises:
      SampleError: the first header is damaged.
    """

    def __init__(self, container: Container, stream: IO[bytes], *, is_compressed: bool) -> None:
        self._container = container
        self._stream = _Metered(stream)
        self._is_compressed = is_compressed
        self._staged_bytes = 0
        options: dict[str, Any] = {"tarinfo": _TarHeader, "encoding": "utf-8", "errors": "surrogateescape"}
        self._tar = self._read(0, lambda: tarfile.TarFile(fileobj=cast(IO[bytes], self._stream), **options))

    def members(self) -> Iterator[Member]:
        """See `Archive.members`."""
        while (member := self._next()) is not None:
            self._tar.members = []  # type: ignore[attr-defined]  # Otherwise tarfile keeps all headers.
            if member.size < 0 or self._tar.offset < member.offset_data:
                raise _corrupt("a member of negative size", member.offset)
            if member.sparse is not None:
                _check_holes(member, stored=self._tar.offset - member.offset_data)
            check_expansion(self._tar.offset, self._container)
            if not member.isdir():
                yield self._member(member)
        # Reading to the end also verifies the checksums of a compressed archive.
        start = self._tar.offset
        while rest := self._read(start, lambda: self._stream.read(_CHUNK_BYTES)):
            if rest.strip(b"\0"):
                raise _corrupt("there are bytes after the end-of-archive marker, such as a second archive", start)
            check_expansion(self._stream.tell(), self._container)
            if self._stream.tell() - start > _MOST_PADDING:
                raise _corrupt("after its last member there are more zeros than a tar archive ends with", start)

    def _member(self, member: tarfile.TarInfo) -> Member:
        is_link = member.islnk() or member.issym()
        return Member(
            member.name,
            member.size,
            member.offset_data,
            locate=functools.partial(self._locate, member),
            chunks=functools.partial(self._chunks, member),
            # Reading a compressed member consumes the stream.
            can_peek=not self._is_staged(member),
            kind="link" if is_link else None if member.isreg() else "special",
        )

    def _is_staged(self, member: tarfile.TarInfo) -> bool:
        return self._is_compressed or member.issparse()

    def _locate(self, member: tarfile.TarInfo, staging: StagingFiles, name: str) -> Range:
        """Locates the bytes of the current member: in the archive, or in a staging file if compressed or sparse.

        Raises:
          SampleError: the archive ends within the member, cannot be read, or expands too much.
        """
        if self._is_staged(member):
            place = staging.add(self._chunks(member), size=member.size, name=name)
            self._staged_bytes += member.size if place.uri else 0
            check_expansion(self._staged_bytes, self._container)
            return place
        if member.offset_data + member.size > self._container.size:
            raise _truncated(self._container)
        return Range(self._container.uri, member.offset_data, member.size, name, self._container.version)

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
        return _read(self._container, at, action)


@contextlib.contextmanager
def open_tar(container: Container) -> Iterator[TarReader]:
    """Opens an archive, detects compression by its first bytes, and reads its first header.

    Raises:
      SampleError: the archive cannot be read, or is not a tar archive.
      ChangedError: the archive is no longer the listed version.
      OSError: a service fault.
    """
    with contextlib.ExitStack() as stack:
        opened = _read(container, 0, lambda: storage.open_read(container.uri, version=container.version))
        file = stack.enter_context(opened)
        magic = _read(container, 0, lambda: file.read(_MOST_MAGIC_BYTES))
        file.seek(0)
        decompress = next((opener for pattern, opener in _DECOMPRESSORS.items() if re.match(pattern, magic)), None)
        stream = stack.enter_context(decompress(file)) if decompress else file
        yield TarReader(container, stream, is_compressed=decompress is not None)


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


def _check_holes(member: tarfile.TarInfo, *, stored: int) -> None:
    """Checks a sparse map: pieces are in order and inside the member, and do not exceed the stored bytes."""
    end = 0
    pieces: Any = member.sparse  # The type stubs of tarfile are wrong.
    for offset, size in pieces:
        if size == 0:  # The end, or an unused entry.
            continue
        if size < 0 or not end <= offset <= offset + size <= member.size:
            raise _corrupt("a sparse member whose pieces do not fit", member.offset)
        end = offset + size
        stored -= size
    if stored < 0:
        raise _corrupt("a sparse member with fewer bytes than its pieces have", member.offset)


def _read(container: Container, at: int, action: Callable[[], Result]) -> Result:
    """Runs a read action, and turns exceptions of tarfile and decompressors into `SampleError`.

    Args:
      at: byte offset of the read in the uncompressed archive.
    """
    try:
        return action()
    except Exception as error:  # Damage makes tarfile raise ValueError, IndexError, RecursionError and others.
        reject(error, functools.partial(_describe, container, at))
        raise


def _describe(container: Container, at: int, error: Exception) -> SampleError:
    if isinstance(error, EOFError) or "end of data" in str(error):
        return _truncated(container)
    return _corrupt(describe_exception(error), at)


def _truncated(container: Container) -> SampleError:
    detail = f"the archive ends at byte {container.size:,}, before its end-of-archive marker"
    return SampleError(Stage.LIST, FailureReason.TRUNCATED, detail)


def _corrupt(detail: str, at: int) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.CORRUPT, f"the archive is damaged at byte {at:,}: {detail}")
