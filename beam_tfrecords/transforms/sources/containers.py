"""Containers: files that hold many samples, ranges of them, and parts of folders; workers list them in parallel."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeAlias

import msgpack

from beam_tfrecords import storage
from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import File, Range, SampleRef, one_image
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.skipped import Damage, Skipped

# Few enough files for a listing, and small enough for any disk or object store.
_MOST_STAGING_BYTES = 1 << 30
# Of samples that are missing and that are believed to have been there.
MOST_MISSING = 1_000_000


@dataclasses.dataclass(frozen=True)
class Container:
    """A file that holds samples, or a part of one.

    Attributes:
      uri: the file; the folder or glob for a part of a listing.
      size: bytes.
      fingerprint: changes when the file does.
      key_prefix: prefix of the keys of its samples: empty, or the name of the file and `/`.
      version: of the file that is listed, as `storage.FileEntry.version`; "" if it is not known.
      part: what the source knows the part of the file by; empty for all of it.
    """

    uri: str
    size: int
    fingerprint: str
    key_prefix: str
    version: str = ""
    part: storage.Part = ()

    @classmethod
    def of(cls, file: storage.FileEntry, *, key_prefix: str) -> Container:
        """A file as it is now."""
        return cls(file.path, file.size, file.fingerprint, key_prefix, file.version)

    def pack(self) -> bytes:
        """The container as bytes."""
        values = (self.uri, self.size, self.fingerprint, self.key_prefix, self.version)
        # Names of folders need not be UTF-8.
        return msgpack.packb((*values, self.part) if self.part else values, unicode_errors="surrogateescape")

    @classmethod
    def unpack(cls, packed: bytes) -> Container:
        """The reverse of `pack`."""
        return cls(*msgpack.unpackb(packed, use_list=False, unicode_errors="surrogateescape"))

    def rejected(self, error: SampleError) -> SampleRef:
        """The reference that stands for this container among the rejected samples."""
        return SampleRef(
            storage.basename(self.uri), one_image(File(self.uri)), failure=(error.reason.value, error.detail)
        )


def reject_missing(
    container: Container, numbers: range, error: SampleError, *, split: str | None, stem: str = ""
) -> Iterator[SampleRef]:
    """The samples that a container announces and that cannot be read; each is a rejected one.

    Args:
      numbers: of the samples.
      error: what keeps them from being read.
      split: of the samples, if it is known without them.
      stem: prefix of their keys within the container.

    Raises:
      SampleError: the error, if they are so many that what announces them may be damaged itself.
    """
    if len(numbers) > MOST_MISSING:
        raise error
    for number in numbers:
        key = f"{stem}{number:012d}"
        place = one_image(Range(container.uri, 0, 0, f"{container.uri}#{key}"))
        yield SampleRef(container.key_prefix + key, place, split=split, failure=(error.reason.value, error.detail))


class StagingFiles:
    """Files that hold copies of samples which cannot be read at random where they are.

    A context manager. A file appears under its name when it is complete; an error discards the current one.
    The same samples give the same files, so a second attempt replaces those of the first.

    Args:
      folder: where the files go.
      stem: prefix of their names, unique within the folder.
      most_bytes: of one sample. A larger one is not copied, because it is rejected unread.

    Attributes:
      files: the files, in order.
    """

    def __init__(self, folder: str, stem: str, *, most_bytes: float = math.inf) -> None:
        self._folder = folder
        self._stem = stem
        self._most_bytes = most_bytes
        self.files: list[str] = []
        self._open = contextlib.ExitStack()
        self._file: IO[bytes] | None = None
        self._path = ""
        self._end = 0

    def __enter__(self) -> StagingFiles:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, chunks: Iterable[bytes], *, size: int, name: str) -> Range:
        """Appends the bytes of one sample.

        Args:
          chunks: the bytes, in pieces; only one piece is in memory at a time.
          size: number of bytes. A sample that does not fit into the current file starts a new one; a sample
            of more than 1 GiB has a file of its own.
          name: the name of the sample that people see.

        Returns:
          Where the bytes will be once the staging file is closed.
        """
        if size > self._most_bytes:
            return Range("", 0, size, name)
        if self._file is None or (self._end and self._end + size > _MOST_STAGING_BYTES):
            self._start_file()
        assert self._file is not None
        start = self._end
        for chunk in chunks:
            try:
                self._file.write(chunk)
            except OSError as error:
                # Not a fault of reading the chunks.
                error.filename = error.filename or self._path
                raise
            self._end += len(chunk)
        return Range(self._path, start, self._end - start, name)

    def _start_file(self) -> None:
        self._open.close()
        self._path = storage.join(self._folder, f"{self._stem}-{len(self.files):04d}.staged")
        self._file = self._open.enter_context(storage.open_write(self._path))
        self.files.append(self._path)
        self._end = 0


# (container, staging, skipped) -> samples, or several by column. A SampleError says that the container cannot be read
# further, and where; if the number of samples that it lacks is known, each of them is a rejected one instead.
# The value is picklable; staged samples can be read when the staging file is closed.
ReadContainer: TypeAlias = Callable[[Container, StagingFiles, Skipped], Iterator[SampleRef | RefColumns]]


def until_damage(
    samples: Iterator[SampleRef | RefColumns], container: Container, skipped: Skipped
) -> Iterator[SampleRef | RefColumns]:
    """The samples of a container up to its end, or to what keeps it from being read further.

    The only place that decides what becomes of a damaged container: `skipped` notes it, which ends the build unless the
    request allows damage, and a rejected sample stands for it.
    """
    count = 0
    try:
        for sample in samples:
            count += len(sample) if isinstance(sample, RefColumns) else 1
            yield sample
    except SampleError as error:
        skipped.damaged.append(Damage(container.uri, count, error.detail))
        yield container.rejected(error)


def member_path(name: str) -> str:
    """The name of a member as a relative path without `.` and `..`; nothing is extracted to it."""
    return printable(posixpath.normpath(f"/{name}").lstrip("/"))
