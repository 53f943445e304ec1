"""Reads tar archives, plain or compressed, from front to back; damage is never taken for the end."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import re
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, RequestError, SampleError, Stage
from transforms.images.formats import SNIFFED_BYTES, may_be_an_image
from transforms.refs import Range
from transforms.sources.containers import Container, Spool

_DECOMPRESSORS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    rb"\x1f\x8b": gzip.open,
    rb"BZh[1-9]1AY&SY": bz2.open,
    rb"\xfd7zXZ\x00": lzma.open,
}
_MOST_MAGIC_BYTES = 10
# Headers that describe the next member. tarfile holds them in memory, so their size has to be bounded.
_EXTENDED_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_MOST_HEADER_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 18

Result = TypeVar("Result")


class TarReader:
    """An open archive.

    Args:
      container: the archive.
      stream: its bytes, decompressed.
      is_compressed: whether the file is compressed.

    Raises:
      SampleError: the first header is damaged.
    """

    def __init__(self, container: Container, stream: IO[bytes], *, is_compressed: bool) -> None:
        self._container = container
        self._stream = stream
        self._is_compressed = is_compressed
        self._tar = self._read(
            lambda: tarfile.TarFile(fileobj=stream, tarinfo=_Header, encoding="utf-8", errors="surrogateescape")
        )

    def members(self) -> Iterator[tarfile.TarInfo]:
        """The members other than folders, in bounded memory.

        Raises:
          SampleError: the archive is damaged or cannot be read further; the members before are valid.
        """
        while (member := self._read(self._tar.next)) is not None:
            self._tar.members = []  # type: ignore[attr-defined]  # tarfile would keep all of them.
            if member.size < 0 or self._tar.offset < member.offset_data:
                raise _corrupt("a member of negative size")
            if not member.isdir():
                yield member
        # Reading to the end also verifies the checksums of a compressed archive.
        while rest := self._read(lambda: self._stream.read(_CHUNK_BYTES)):
            if rest.strip(b"\0"):
                raise _corrupt("there are bytes after the end-of-archive marker, such as a second archive")

    def locate(self, member: tarfile.TarInfo, spool: Spool, *, name: str) -> Range:
        """Where the bytes of the current member are: in the archive, or in the spool if it is compressed.

        Raises:
          SampleError: the archive ends within the member or cannot be read.
        """
        if self._is_compressed or member.issparse():
            return spool.add(self._chunks(member), size=member.size, name=name)
        if member.offset_data + member.size > self._container.size:
            raise _truncated(self._container)
        return Range(self._container.uri, member.offset_data, member.size, name, self._container.version)

    def may_be_an_image(self, member: tarfile.TarInfo) -> bool:
        """Whether the first bytes of the current member may be an image's; a compressed archive is not read twice."""
        if self._is_compressed or member.issparse():
            return True
        return may_be_an_image(next(self._chunks(member), b"")[:SNIFFED_BYTES])

    def _chunks(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        file = self._tar.extractfile(member)
        assert file is not None
        while chunk := self._read(lambda: file.read(_CHUNK_BYTES)):
            yield chunk

    def _read(self, action: Callable[[], Result]) -> Result:
        return _read(self._container, action)


@contextlib.contextmanager
def open_tar(container: Container) -> Iterator[TarReader]:
    """Opens an archive, compressed or not by its first bytes, and reads its first header.

    Raises:
      SampleError: it cannot be read, or is not a tar archive.
      ChangedError: it is no longer the version that is listed.
      OSError: a service fault.
    """
    with contextlib.ExitStack() as stack:
        opened = _read(container, lambda: storage.open_read(container.uri, version=container.version))
        file = stack.enter_context(opened)
        magic = _read(container, lambda: file.read(_MOST_MAGIC_BYTES))
        file.seek(0)
        decompress = next((opener for pattern, opener in _DECOMPRESSORS.items() if re.match(pattern, magic)), None)
        stream = stack.enter_context(decompress(file)) if decompress else file
        yield TarReader(container, stream, is_compressed=decompress is not None)


class _Header(tarfile.TarInfo):
    """A header whose damage is an error; tarfile takes a damaged one for the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> _Header:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # The end-of-archive marker.
            raise
        except tarfile.HeaderError as error:
            if not archive.fileobj.read(1):
                raise EOFError from error
            raise tarfile.ReadError(str(error)) from error

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type in _EXTENDED_HEADERS and header.size > _MOST_HEADER_BYTES):
            raise tarfile.ReadError(f"an invalid header: {header.size:,} bytes")
        return header


def _read(container: Container, action: Callable[[], Result]) -> Result:
    """The result of reading; what tarfile and the decompressors raise becomes a `SampleError`."""
    try:
        return action()
    except (RequestError, BuildError, MemoryError):
        raise
    except Exception as error:  # Damage makes tarfile raise ValueError, IndexError, RecursionError and others.
        if isinstance(error, EOFError) or "end of data" in str(error):
            raise _truncated(container) from error
        if isinstance(error, storage.ChangedError) or (isinstance(error, OSError) and storage.is_service_fault(error)):
            raise
        # Exceptions of the decompressors are OSErrors too, but without a number.
        if isinstance(error, OSError) and (error.errno is not None or isinstance(error, storage.StorageError)):
            raise SampleError(Stage.LIST, FailureReason.UNREADABLE, error.strerror or str(error)) from error
        raise _corrupt(str(error) or type(error).__name__) from error


def _truncated(container: Container) -> SampleError:
    detail = f"the archive ends at byte {container.size:,}, before its end-of-archive marker"
    return SampleError(Stage.LIST, FailureReason.TRUNCATED, detail)


def _corrupt(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.CORRUPT, f"the archive is damaged: {detail}")
