"""Partitions: files of many samples, ranges of such files, and parts of folders. Workers list them in parallel."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeAlias

import msgpack

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import File, Range, SampleRef, one_image
from beam_tfrecords.transforms.sources.inputs import (
    Inputs,
    find_entries,
    key_prefixes,
    names_several,
    quote_input,
    require_utf8,
    splits_of_names,
)
from beam_tfrecords.transforms.sources.tally import Damage, Tally

# Keeps the number of files low, and each file small enough for any disk or object store.
_MOST_STAGING_BYTES = 1 << 30
# Largest number of missing samples to list; a higher count suggests that the count itself is damaged.
MOST_MISSING = 1_000_000


@dataclasses.dataclass(frozen=True)
class Partition:
    """A part of an input that one worker lists: a file of samples, or a part of a file, a folder or a table.

    Attributes:
      uri: the file, or for a part of a listing its folder or glob.
      size: bytes.
      fingerprint: changes when the file does.
      key_prefix: prefix of the keys of the samples: empty, or the file name and `/`.
      version: version of the listed file, as in `storage.FileEntry.version`; "" if unknown.
      part: the source's identifier for a part of the file; empty for the whole file.
      identifies: whether the partitions identify the input; otherwise its samples do.
      split: split of its samples, if the request or the names of all files state it; a column may state another.
    """

    uri: str
    size: int
    fingerprint: str
    key_prefix: str
    version: str = ""
    part: storage.Partition = ()
    identifies: bool = True
    split: str | None = None

    @classmethod
    def of(cls, file: storage.FileEntry, *, key_prefix: str = "", split: str | None = None) -> Partition:
        """Returns the partition for the current version of a file."""
        return cls(file.path, file.size, file.fingerprint, key_prefix, file.version, split=split)

    def pack(self) -> bytes:
        """Serializes the partition."""
        values = self.uri, self.size, self.fingerprint, self.key_prefix, self.version, self.part, self.identifies
        # Folder names may contain bytes that are not UTF-8.
        packed: bytes = msgpack.packb((*values, self.split), unicode_errors="surrogateescape")
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Partition:
        """Deserializes a partition that `pack` wrote."""
        return cls(*msgpack.unpackb(packed, use_list=False, unicode_errors="surrogateescape"))

    def rejected(self, error: SampleError) -> SampleRef:
        """Returns the rejected sample that represents this partition."""
        name, prefix = storage.basename(self.uri), self.key_prefix.rstrip("/")
        key = prefix if prefix.endswith(name) else name
        return SampleRef(key, one_image(File(self.uri)), failure=(error.reason.value, error.detail))


# All of an input, which the launcher lists; what it yields identifies the input.
WHOLE = Partition("", 0, "", "", identifies=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelinePartition(Partition):
    """The samples that a Beam pipeline makes.

    Attributes:
      make: adds the user's transforms to a pipeline: root -> PCollection of `Sample`.
      read: writes a sample's bytes to a staging file, and returns its reference.
      function: the user's function.
    """

    make: Callable[[Any], Any]
    read: Callable[[Any, StagingFiles, Tally], SampleRef]
    function: UserFunction

    def without_code(self) -> Partition:
        """Returns the partition without the user's code, which not every process can unpickle."""
        return Partition.unpack(self.pack())


def find_files(inputs: Inputs, *, by_name: bool) -> list[Partition]:
    """Returns the files of the paths and globs of an input.

    Args:
      by_name: infer splits from the file names.

    Raises:
      RequestError: a glob matches no file, or an entry is not a regular file.
    """
    files: list[storage.FileEntry] = []
    splits: list[str | None] = []
    for path in inputs.paths:
        found = find_entries(path)
        files += found
        splits += [inputs.splits.get(path)] * len(found)
    for file in files:
        require_utf8(file.path)
        if file.size < 0:
            raise RequestError(
                f"{quote_input(file.path)} is not a regular file, or is a broken link", code="not_a_file"
            )
    # A glob may match more files later, so its keys always have a prefix.
    paths = [file.path for file in files]
    prefixes = key_prefixes(paths, always=any(map(names_several, inputs.paths)), splits=splits)
    splits = splits_of_names(paths) if by_name and not inputs.splits else splits
    named = zip(files, prefixes, splits, strict=True)
    return [Partition.of(file, key_prefix=prefix, split=split) for file, prefix, split in named]


def find_files_below(inputs: Inputs, name: re.Pattern[str], what: str) -> list[Partition]:
    """Returns the files of the inputs, including the matching files below folders.

    Args:
      inputs: files, folders and globs.
      name: pattern for the path of a file, relative to its folder.
      what: name for the files in the error message.

    Raises:
      RequestError: an input has no such file.
    """
    files: list[Partition] = []
    for path, prefix in zip(inputs.paths, key_prefixes(inputs.paths), strict=True):
        is_folder = not names_several(path) and storage.is_folder(path)
        start = len(path.rstrip("/")) + 1
        found = list(storage.list_files(path, literal=True)) if is_folder else find_entries(path)
        if is_folder:
            found = [one for one in found if one.size and name.fullmatch(one.path[start:])]
            found.sort(key=lambda one: one.path)
        if not found:
            raise RequestError(f"{quote_input(path)}: there is no {what}", code="not_found")
        # A glob or a folder may have more files later.
        own = (
            [f"{one.path[start:]}/" for one in found]
            if is_folder
            else key_prefixes([one.path for one in found], always=names_several(path))
        )
        split = inputs.splits.get(path)
        files += [Partition.of(one, key_prefix=prefix + key, split=split) for key, one in zip(own, found, strict=True)]
    return files


def reject_missing(partition: Partition, numbers: range, error: SampleError, *, stem: str = "") -> Iterator[SampleRef]:
    """Yields a rejected sample for each sample that a partition announces but that cannot be read.

    Args:
      numbers: numbers of the samples.
      error: why the samples cannot be read.
      stem: prefix of their keys within the partition.

    Raises:
      SampleError: `error`, if the number of samples is implausible, so that the count itself may be damaged.
    """
    if len(numbers) > MOST_MISSING:
        raise error
    for number in numbers:
        key = f"{stem}{number:012d}"
        place = one_image(Range(partition.uri, 0, 0, f"{partition.uri}#{key}"))
        failure = error.reason.value, error.detail
        yield SampleRef(partition.key_prefix + key, place, split=partition.split, failure=failure)


class StagingFiles:
    """Staging files with copies of samples that do not allow random access in their partition.

    A context manager. A file gets its final name when it is complete; an error discards the current file.
    The same samples give the same files, so a second attempt replaces the files of the first.

    Args:
      folder: folder of the files.
      stem: prefix of their names, unique within the folder.
      most_bytes: largest sample to copy, in bytes. Larger samples are rejected without being read.

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
          chunks: pieces of the sample; only one piece is in memory at a time.
          size: number of bytes. A sample that does not fit into the current file starts a new file; a sample
            over 1 GiB gets its own file.
          name: name of the sample in messages.

        Returns:
          The byte range of the sample; readable once the staging file is closed.
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
                # Tells this error from an error of reading the chunks.
                error.filename = error.filename or self._path
                raise
            self._end += len(chunk)
        return Range(self._path, start, self._end - start, name)

    def start_copy(self) -> tuple[str, Callable[[bytes], Any]]:
        """Returns a staging file, readable once it is closed, and the function that appends to it."""
        self._start_file()
        assert self._file is not None
        self._end = _MOST_STAGING_BYTES
        return self._path, self._file.write

    def _start_file(self) -> None:
        self._open.close()
        self._path = storage.join(self._folder, f"{self._stem}-{len(self.files):04d}.staged")
        self._file = self._open.enter_context(storage.open_write(self._path))
        self.files.append(self._path)
        self._end = 0


# (partition, tally, staging) -> samples, one by one or as column batches. A SampleError says where the partition
# becomes unreadable; if the number of missing samples is known, the function yields a rejected sample for each instead.
# The function is picklable; staged samples are readable once the staging file is closed.
ReadPartition: TypeAlias = Callable[[Partition, Tally, StagingFiles], Iterator[SampleRef | RefColumns]]


def until_damage(
    samples: Iterator[SampleRef | RefColumns], partition: Partition, tally: Tally
) -> Iterator[SampleRef | RefColumns]:
    """Yields the samples of a partition up to its end or its first damage.

    Only this function handles damaged partitions: it records the damage in the tally, which fails the build unless the
    request allows damage, and yields a rejected sample for the partition.
    """
    count = 0
    try:
        for sample in samples:
            count += len(sample) if isinstance(sample, RefColumns) else 1
            yield sample
    except SampleError as error:
        tally.damaged.append(Damage(partition.uri, count, error.detail))
        yield partition.rejected(error)
