"""Files in archives, below all sources: `photos.zip#/cat/1.jpg` is a member, `photos.zip#` the folder of all members.

Listing reads the directory of a zip archive, or the headers of a tar archive, once; the version of a listed file says
its place, so that other processes read it without them. Nothing is written to an archive. Links and special files are
not listed. A compressed tar archive is expanded once, into the folder of `expanding_into`.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import tempfile
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.storage.entries import FileEntry
from beam_tfrecords.storage.members import (
    ZIP_NAME,
    Archive,
    MemberError,
    Place,
    check_content,
    content_start,
    expansion_folder,
    is_place,
    split_address,
    start_length,
    unpack_member,
    unpack_start,
)
from beam_tfrecords.storage.paths import compile_glob, is_glob
from beam_tfrecords.storage.range_reader import open_ranges
from beam_tfrecords.storage.tar_archive import open_tar
from beam_tfrecords.storage.zip_archive import open_zip

# Archives whose members are kept in memory.
_MOST_ARCHIVES = 4
# Seconds for which an archive in a store counts as unchanged.
_UNCHANGED_SECONDS = 30.0
# Largest content of a deflated member that is inflated in memory, and number of inflated members to keep.
_MOST_BYTES = 64 << 20
_MOST_INFLATED = 2
_READ_BYTES = 1 << 18

_lock = threading.RLock()
# Place -> temporary file with the content.
_inflated: OrderedDict[str, Any] = OrderedDict()


def exists(path: str) -> bool:
    """See `storage.exists`."""
    return is_file(path) or is_folder(path)


def is_file(path: str) -> bool:
    """See `storage.is_file`."""
    archive, member = split_address(path)
    return member in _directory(archive).files if storage.is_file(archive) else False


def is_folder(path: str) -> bool:
    """See `storage.is_folder`."""
    archive, member = split_address(path)
    return storage.is_file(archive) and (not member or bool(_directory(archive).below(member)))


def stat(path: str) -> FileEntry:
    """See `storage.stat`."""
    archive, member = split_address(path)
    entry = _directory(archive).files.get(member)
    if entry is None:
        raise FileNotFoundError(2, "No such file in the archive", path)
    return entry


def open_read(path: str, *, version: str) -> IO[bytes]:
    """See `storage.open_read`."""
    place = _place(path, version)
    # Raises an error for a missing or changed archive at once.
    opened = storage.open_read(place.file, version=place.version)
    opened.close()
    read = functools.partial(_read, path, place)
    return open_ranges(place.size, read, read_bytes=_READ_BYTES if not storage.has_scheme(path) else 8 << 20)


def read_bytes(path: str, *, version: str, size: int = 0) -> bytes:
    """See `storage.read_bytes`; checks the CRC-32 of a member of a zip archive."""
    place = _place(path, version)
    return _read(path, place, 0, place.size)


def read_range(path: str, offset: int, length: int, *, version: str) -> bytes:
    """See `storage.read_range`; checks the CRC-32 of a whole member of a zip archive."""
    place = _place(path, version)
    return _read(path, place, offset, max(min(length, place.size - offset), 0))


def list_files(root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]:
    """See `storage.list_files`."""
    archive, member = split_address(root)
    directory = _directory(archive)
    pattern = compile_glob(member) if is_glob(member) and not literal and not directory.below(member) else None
    names: Iterable[str] = filter(pattern.fullmatch, directory.names) if pattern else directory.below(member)
    yield from map(directory.files.__getitem__, itertools.islice(names, limit))


def list_folders(root: str) -> list[str]:
    """See `storage.list_folders`."""
    archive, member = split_address(root)
    start = len(member) + 1 if member else 0
    return sorted({name[start:].partition("/")[0] for name in _directory(archive).below(member) if "/" in name[start:]})


def _refuse_write(path: str, *_: Any, **__: Any) -> Any:
    raise MemberError(path, FailureReason.UNREADABLE, "nothing is written to an archive")


replace = delete = open_write = open_new = _refuse_write


def delete_files(files: Iterable[str]) -> None:
    """Raises an error: nothing is deleted from an archive."""
    for path in files:
        _refuse_write(path)


def read_state(path: str) -> tuple[bytes, str] | None:
    """See `storage.read_state`."""
    if not is_file(path):
        return None
    entry = stat(path)
    return read_bytes(path, version=entry.version), entry.version


@dataclasses.dataclass(frozen=True)
class _Directory:
    """The members of an archive; of several with one name the last, as after extraction.

    Attributes:
      fingerprint: fingerprint of the archive.
      files: path in the archive -> file.
      names: these paths, sorted.
      copy: file with the plain bytes of a compressed archive; "" for a plain one.
    """

    fingerprint: str
    files: dict[str, FileEntry]
    names: list[str]
    copy: str

    def below(self, folder: str) -> Sequence[str]:
        """Returns the paths of the files below a folder."""
        if not folder:
            return self.names
        start, end = (bisect.bisect_left(self.names, folder + mark) for mark in ("/", "0"))
        return self.names[start:end]

    def is_of(self, archive: FileEntry) -> bool:
        """Whether these are the members of a version of an archive, and workers can read a copy of it."""
        if self.fingerprint != archive.fingerprint:
            return False
        if not self.copy:
            return True
        # Threads of a build have no folder of their own.
        is_in_place = not expansion_folder() or self.copy == _copy_path(archive)
        return is_in_place and storage.is_file(self.copy)


# Archive -> when it was looked up, and its members.
_directories: OrderedDict[str, tuple[float, _Directory]] = OrderedDict()


def _directory(archive: str) -> _Directory:
    """Returns the members of the current version of an archive.

    Raises:
      MemberError: the archive is damaged.
      OSError: the archive does not exist, or a service fault.
    """
    with _lock:
        seen, found = _directories.pop(archive, (0.0, None))
        is_recent = storage.has_scheme(archive) and time.monotonic() - seen < _UNCHANGED_SECONDS
        if found is None or not is_recent:
            entry = storage.stat(archive)
            found = found if found is not None and found.is_of(entry) else _read_directory(entry)
            seen = time.monotonic()
        _directories[archive] = seen, found
        while len(_directories) > _MOST_ARCHIVES:
            _directories.popitem(last=False)
        return found


def _read_directory(archive: FileEntry) -> _Directory:
    files: dict[str, FileEntry] = {}
    start = len(archive.path) + 2
    copies: list[str] = []
    try:
        with contextlib.ExitStack() as stack:
            for member in _open(archive, stack, copies).members():
                if not member.kind:
                    entry = member.entry(archive.path, archive.fingerprint)
                    files[entry.path[start:]] = entry
    except SampleError as error:
        raise MemberError(archive.path, error.reason, error.detail) from error
    return _Directory(archive.fingerprint, files, sorted(files), "".join(copies))


def _open(archive: FileEntry, stack: contextlib.ExitStack, copies: list[str]) -> Archive:
    """Opens an archive until the stack is closed.

    Args:
      copies: receives the file with the plain bytes of a compressed archive.
    """

    def start_copy() -> tuple[str, Callable[[bytes], Any]]:
        copies.append(_copy_path(archive))
        return copies[0], stack.enter_context(storage.open_write(copies[0])).write

    if ZIP_NAME.search(archive.path):
        return stack.enter_context(open_zip(archive.path, size=archive.size, version=archive.version))
    if storage.is_file(copy := _copy_path(archive)):
        # Another process has expanded the archive; an unfinished copy has no name.
        copies.append(copy)
        return stack.enter_context(open_tar(copy, size=storage.stat(copy).size))
    opened = open_tar(archive.path, size=archive.size, version=archive.version, copy=start_copy)
    return stack.enter_context(opened)


def _copy_path(archive: FileEntry) -> str:
    name = f"{archive.path}\0{archive.fingerprint}".encode(errors="surrogateescape")
    folder = expansion_folder() or _temporary_folder().name
    return storage.join(folder, f"{hashlib.blake2b(name, digest_size=8).hexdigest()}.tar")


@functools.cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Returns a folder that is deleted when the process ends."""
    return tempfile.TemporaryDirectory(prefix="beam-tfrecords-")


def _place(path: str, version: str) -> Place:
    return Place.unpack(version if is_place(version) else stat(path).version)


def _read(path: str, place: Place, offset: int, length: int) -> bytes:
    """Reads bytes of a member's content.

    Raises:
      MemberError: the member is damaged.
      ChangedError: the archive is no longer the listed version.
    """
    if place.failure is not None:
        raise MemberError(path, FailureReason(place.failure[0]), place.failure[1])
    if place.is_plain:
        return _read_range(place, place.offset + offset, length)
    is_whole = length == place.size
    if not place.is_deflated and not is_whole:
        head = _read_range(place, place.offset, start_length(place, 0))
        return _read_range(place, place.offset + content_start(head, place) + offset, length)
    if is_whole and place.size <= _MOST_BYTES:
        return unpack_member(_read_range(place, place.offset, place.length), place)
    if not offset and length <= _READ_BYTES:
        head = unpack_start(_read_range(place, place.offset, start_length(place, length)), place, length)
        if len(head) == length:
            return head
    with _lock:
        file = _inflate(path, place)
        file.seek(offset)
        return bytes(file.read(length))


def _read_range(place: Place, offset: int, length: int) -> bytes:
    """Reads bytes of the archive.

    Raises:
      ChangedError: it is no longer the listed version.
    """
    data = storage.read_range(place.file, offset, length, version=place.version)
    if len(data) != length:
        raise storage.ChangedError(
            f"{place.file} has changed since it was listed: {len(data):,} bytes where there were {length:,}"
        )
    return data


def _inflate(path: str, place: Place) -> Any:
    """Returns the content of a large or deflated member as a file of its own."""
    # Forked processes share the position in a file.
    key = f"{os.getpid()}\n{path}\n{place.pack()}"
    if key in _inflated:
        _inflated.move_to_end(key)
        return _inflated[key]
    file: Any = tempfile.SpooledTemporaryFile(_MOST_BYTES)  # noqa: SIM115  # kept
    size = crc = 0
    for chunk in _inflated_chunks(path, place):
        file.write(chunk)
        size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    check_content(size, crc, place)
    _inflated[key] = file
    while len(_inflated) > _MOST_INFLATED:
        _inflated.popitem(last=False)[1].close()
    return _inflated[key]


def _inflated_chunks(path: str, place: Place) -> Iterator[bytes]:
    with storage.open_read(place.file, version=place.version) as file:
        file.seek(place.offset)
        head = file.read(start_length(place, 0))
        file.seek(place.offset + content_start(head, place))
        stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        left, left_out = place.stored, place.size + 1
        while left and left_out > 0 and (data := file.read(min(left, _READ_BYTES))):
            left -= len(data)
            try:
                while data and left_out > 0:
                    chunk = stream.decompress(data, min(left_out, _READ_BYTES)) if place.is_deflated else data
                    data = stream.unconsumed_tail
                    left_out -= len(chunk)
                    yield chunk
            except zlib.error as error:
                detail = f"the archive member is damaged: {error}"
                raise MemberError(path, FailureReason.CORRUPT, detail) from error
