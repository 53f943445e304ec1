"""Stacks: consecutive images of one shape in a file, as in the formats of small datasets.

References point to the pixels inside the file; pixels of compressed files are copied to a staging file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.storage.members import check_expansion
from beam_tfrecords.storage.reading import reading
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, PixelRange, SampleRef
from beam_tfrecords.transforms.sources.class_files import FoundClasses
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.inputs import describe_divided, describe_splits, quote_input, splits_of_names
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, reject_missing
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.row_source import RowSource
from beam_tfrecords.transforms.sources.tables.row_values import Located, number_key
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tally import Tally

# Usual label names, in addition to the names in tables.
_LABELS = ("y", "target", "targets")
_ROWS = 100
# Number of first images to look at, and of values of masks and the like.
_FIRST, _FEW_VALUES = 4, 32
_MOST_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Stack:
    """Consecutive images of one shape in a file.

    Attributes:
      name: prefix of the keys within the file: empty, or ends in `/`.
      count: number of images.
      shape: shape of an image, as in `PixelRange`.
      axes: axes of an image, as in `PixelRange`.
      dtype: type of the pixels, as in `PixelRange`.
      step: bytes from one image to the next.
      column_types: column -> "int64", "float" or "bytes".
      rows: (columns) -> the values of each image; may include other columns, and omits columns that the stack lacks.
      offset: offset of the first image in the file; None if the file is compressed.
      open: opens the images of a compressed file as a stream.
      head: bytes of a step before the pixels.
      split: split of the images, if the file states it.
      is_counted: whether the file states the number of images; if not, it follows from the file size.
      end: end offset of the images in an uncompressed file if none is missing; None if unknown.
    """

    name: str
    count: int
    shape: tuple[int, ...]
    axes: str
    dtype: str
    step: int
    column_types: Mapping[str, str]
    rows: Callable[[Collection[str]], Iterator[Mapping[str, Any]]]
    offset: int | None
    open: Callable[[], contextlib.AbstractContextManager[IO[bytes]]]
    head: int = 0
    split: str | None = None
    is_counted: bool = True
    end: int | None = None

    @property
    def size(self) -> int:
        """Size of an image in bytes."""
        return self.step - self.head


# The function is picklable.
FindStacks: TypeAlias = Callable[[Partition], Sequence[Stack]]


class StackSource(RowSource):
    """Files that contain stacks.

    Args:
      files: the files.
      find: finds the stacks of a file.
      stacks: stacks of the first file.
      table: values of its first images.
      found_classes: class names in the files, for labels that are numbers.
      read_name: replaces unusual split names in a path with usual ones.
      notes: notes on the files.
      unused: notes on arrays that are neither the images nor values of these.
      request: the request.
      needs: requested contents.

    Raises:
      RequestError: the files do not fit the request.
    """

    def __init__(
        self,
        files: Sequence[Partition],
        find: FindStacks,
        stacks: Sequence[Stack],
        table: FirstRows,
        found_classes: Sequence[FoundClasses],
        read_name: Callable[[str], str],
        notes: Sequence[str],
        unused: Sequence[str],
        request: OpenRequest,
        needs: Needs,
    ) -> None:
        inputs, settings = request.inputs, request.spec
        super().__init__(files, inputs)
        then = (*_LABELS, *(table.columns if len(table.columns) == 1 else ()))
        lacks = "no labels" + (" of a usual name" if table.columns else f" ({'; '.join(unused)})" if unused else "")
        label = choose_label(table, settings, needs, then=then, lacks=lacks)
        self.notes += [*notes, *unused]
        cells = self._take_columns(table, settings, needs, label, images={IMAGE: False})
        self._describe(found_classes=found_classes)
        self._split_files(splits_of_names([read_name(file.uri) for file in files]), request, needs)
        splits = {file.uri: file.split for file in self.partitions if file.split}
        by_arrays = not splits and cells.columns.split is None and settings.split_column is None
        if by_arrays or inputs.splits:
            own = {stack.split: stack.count for stack in stacks if stack.split}
            divides = needs.splits.fractions is not None
            self.notes += describe_divided(inputs, {inputs.paths[0]: own}, "image", divides=divides)
        by_arrays = by_arrays and needs.splits.are_auto
        self.notes += describe_splits(splits, inputs)
        if by_arrays and any(stack.split for stack in stacks):
            shown = ", ".join(dict.fromkeys(str(stack.split) for stack in stacks))
            self.notes.append(f"splits from the names of the arrays: {shown}")
        self._find, self._cells, self._by_arrays = find, cells, by_arrays

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields one reference per image; copies the images of a compressed file.

        Rejects missing images if the file states the number of images.

        Raises:
          ChangedError: the file is no longer the listed version.
          SampleError: the file is damaged, and the number of missing images is unknown.
        """
        for stack in self._find(partition):
            of = dataclasses.replace(partition, split=stack.split) if self._by_arrays else partition
            if stack.offset is None:
                check_expansion(stack.count * stack.step, partition.size)
            self._see_others(partition, stack.column_types, stack.count, tally)
            done = 0
            try:
                with contextlib.ExitStack() as opened:
                    stream = None if stack.offset is not None else opened.enter_context(stack.open())
                    rows = stack.rows(self._cells.needed)
                    for number in range(stack.count):
                        place = _place(partition, stack, number, stream, staging)
                        yield self._read(of, stack, number, place, next(rows))
                        done += 1
                    _check_end(stack, stream)
            except SampleError as error:
                if not stack.is_counted or done == stack.count:
                    raise
                yield from reject_missing(of, range(done, stack.count), error, stem=stack.name)

    def _read(
        self, partition: Partition, stack: Stack, number: int, place: PixelRange, row: Mapping[str, Any]
    ) -> SampleRef:
        # Includes the shape, so that reading the file in another way changes the fingerprint.
        fingerprint = f"{partition.fingerprint}@{stack.name}{number}:{stack.axes}{list(stack.shape)}"
        located = Located(_key(stack, number), number, {}, {IMAGE: place}, stack.size, fingerprint)
        values = {name: row.get(name) for name in self._cells.needed}
        return self._cells.sample(values, located, partition)


def open_stacks(
    files: Sequence[Partition],
    find: FindStacks,
    *,
    found_classes: Sequence[FoundClasses] = (),
    read_name: Callable[[str], str] = str,
    notes: Sequence[str] = (),
    unused: Sequence[str] = (),
    request: OpenRequest,
) -> MakeSource:
    """Reads the start of the first file. The arguments are those of `StackSource`.

    Raises:
      RequestError: the file cannot be read.
    """
    first = files[0]
    try:
        stacks = find(first)
        types = stacks[0].column_types
        alike = [one.rows(types) for one in stacks if one.column_types == types]
        rows = [row for some in alike for row in itertools.islice(some, _ROWS)]
        values = _count_values(first, stacks[0])
    except SampleError as error:
        raise RequestError(f"{quote_input(first.uri)} cannot be read: {error.detail}", code="invalid_file") from error
    table = FirstRows(first.uri, tuple(types), rows, column_types=types)
    if 1 < values <= min(_FEW_VALUES, stacks[0].size // 4):
        few = f"the first images have {values} values, like masks; JPEG changes these, `image_encoding=png` keeps them"
        notes = [*notes, few]
    return functools.partial(StackSource, files, find, stacks, table, found_classes, read_name, notes, unused, request)


def _count_values(file: Partition, stack: Stack) -> int:
    """Counts the distinct values in the first images; returns 0 for colors, fractions and large images."""
    size = min(stack.count, _FIRST) * stack.step
    if (len(stack.shape) > 2 and 1 not in stack.shape) or np.dtype(stack.dtype).kind == "f" or size > _MOST_BYTES:
        return 0
    data = b""
    # Damaged images are rejected one by one.
    with contextlib.suppress(SampleError):
        if stack.offset is None:
            with stack.open() as stream:
                data = read_exactly(stream, size)
        else:
            data = storage.read_range(file.uri, stack.offset, size)
    steps = np.frombuffer(data[: len(data) // stack.step * stack.step], np.uint8).reshape(-1, stack.step)
    return len(np.unique(np.ascontiguousarray(steps[:, stack.head :]).view(stack.dtype)))


def find_axes(shape: Sequence[int]) -> str | None:
    """Returns the axes of an image with this shape; None if it is not an image shape."""
    if len(shape) not in (2, 3) or not all(shape):
        return None
    if len(shape) == 2:
        return "HW"
    return "HWC" if shape[2] in (1, 3, 4) else "CHW" if shape[0] in (1, 3, 4) else None


def reading_stack() -> contextlib.AbstractContextManager[None]:
    """Returns a guard that turns read errors into `SampleError`, except service faults."""
    return reading(_describe_damage)


def _describe_damage(error: Exception) -> SampleError:
    said = "" if isinstance(error, OSError) else "it is damaged, or not complete: "
    return SampleError(Stage.LIST, FailureReason.CORRUPT, f"{said}{error}")


def read_exactly(file: IO[bytes], size: int) -> bytes:
    """Reads exactly `size` bytes.

    Raises:
      SampleError: the file ends earlier.
    """
    with reading_stack():
        data = file.read(size)
        while len(data) < size and (more := file.read(size - len(data))):
            data += more
    if len(data) < size:
        raise _cut(f"{len(data):,} bytes where {size:,} are expected")
    return data


def _place(
    partition: Partition, stack: Stack, number: int, stream: IO[bytes] | None, staging: StagingFiles
) -> PixelRange:
    name = f"{partition.uri}#{_key(stack, number)}"
    if stream is not None:
        pixels = read_exactly(stream, stack.step)[stack.head :]
        copied = staging.add([pixels], size=stack.size, name=name)
        where = copied.uri, copied.offset, copied.length, name, copied.version
    else:
        assert stack.offset is not None
        offset = stack.offset + number * stack.step
        if offset + stack.step > partition.size:
            raise _cut(f"it has {partition.size:,} bytes, which end in image {number:,} of {stack.count:,}")
        where = partition.uri, offset + stack.head, stack.size, name, partition.version
    return PixelRange(*where, shape=stack.shape, axes=stack.axes, dtype=stack.dtype)


def _check_end(stack: Stack, stream: IO[bytes] | None) -> None:
    """Checks that nothing follows the last image, because the stated number of images may be damaged.

    Raises:
      SampleError: there are bytes after the last image.
    """
    if stream is None:
        more = 0 if stack.end is None else stack.end - (stack.offset or 0) - stack.count * stack.step
    else:
        with reading_stack():
            more = len(stream.read(1))
    if more:
        detail = f"it is damaged: there are bytes after the last image, number {stack.count - 1:,}"
        raise SampleError(Stage.LIST, FailureReason.CORRUPT, detail)


def _cut(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.TRUNCATED, f"the file is cut: {detail}")


def _key(stack: Stack, number: int) -> str:
    return f"{stack.name}{number_key(number)}"
