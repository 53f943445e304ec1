"""Stacks: images of one shape, one behind the other in a file, as the formats of small datasets have them.

The pixels are read where they are, by the converter; those of compressed files are copied to a staging file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias

from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, PixelRange, SampleRef
from beam_tfrecords.transforms.sources.archives.members import check_expansion
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles, reject_missing
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs, describe_splits, quote_input, splits_of_names
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.reading import reading
from beam_tfrecords.transforms.sources.skipped import Skipped
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.tables.row_source import RowSource
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader, number_key
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

# Usual names of labels besides those of tables.
_LABELS = ("y", "target", "targets")
_ROWS = 100


@dataclasses.dataclass(frozen=True)
class Stack:
    """Images of one shape in a file.

    Attributes:
      name: prefix of their keys within the file: empty, or ends in `/`.
      count: number of images.
      shape: of one, and `axes` and `dtype`, as `PixelRange` has them.
      step: bytes from one image to the next.
      head: bytes of a step before the pixels.
      column_types: column -> "int64", "float" or "bytes".
      rows: columns -> their values for each image; a stack may have others, and those that it lacks are missing.
      offset: of the first image in the file; None if the file is compressed.
      open: the images as a stream, if the file is compressed.
      split: of the images, if the file says it.
      is_counted: whether the file says the number of images; else it follows from its size.
      end: where the images end if none is missing, in a file that is not compressed; None if nothing says it.
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
        """Bytes of an image."""
        return self.step - self.head


# The value is picklable.
FindStacks: TypeAlias = Callable[[Container], Sequence[Stack]]


class StackSource(RowSource):
    """Files of stacks.

    Args:
      files: the files.
      find: reads where the stacks of a file are.
      stacks: of the first file.
      table: what belongs to its first images.
      class_names: of the labels, which are names then; empty if nothing tells them.
      read_name: path -> the same with a usual word for the split in it.
      notes: on the files.
      inputs: inputs of the request.
      settings: settings of the rows.
      needs: requested contents.

    Raises:
      RequestError: they do not fit the request.
    """

    unit = "image"

    def __init__(
        self,
        files: Sequence[InputFile],
        find: FindStacks,
        stacks: Sequence[Stack],
        table: FirstRows,
        class_names: Sequence[str],
        read_name: Callable[[str], str],
        notes: Sequence[str],
        inputs: Inputs,
        settings: TableSettings,
        needs: Needs,
    ) -> None:
        super().__init__(files, inputs)
        then = (*_LABELS, *(table.columns if len(table.columns) == 1 else ()))
        lacks = "no labels of a usual name" if table.columns else "no labels"
        label = choose_label(table, settings, needs, then=then, lacks=lacks)
        self.notes += notes
        cells = self._take_columns(table, settings, needs, label)
        self.class_names = class_names if needs.label else ()
        self.labels_may_be_indices = not self.class_names
        paths = [file.entry.path for file in files]
        split_column = settings.split_column
        by_name = needs.splits.are_auto and not split_column and not inputs.splits
        said = splits_of_names(list(map(read_name, paths))) if by_name else [file.split for file in files]
        splits = {path: split for path, split in zip(paths, said, strict=True) if split}
        by_arrays = not splits and cells.columns.split is None and needs.splits.are_auto and split_column is None
        self.notes += describe_splits(splits, list(splits.values()), inputs)
        if by_arrays and any(stack.split for stack in stacks):
            shown = ", ".join(dict.fromkeys(str(stack.split) for stack in stacks))
            self.notes.append(f"splits from the names of the arrays: {shown}")
        self.read_container: ReadStacks = ReadStacks(find, cells, splits, by_arrays)


@dataclasses.dataclass(frozen=True)
class ReadStacks:
    """Lists the images of one file. Picklable.

    Attributes:
      find: reads where they are.
      cells: reads what belongs to an image.
      splits: file -> split of its images.
      by_arrays: whether stacks say the splits.
    """

    find: FindStacks
    cells: RowReader
    splits: Mapping[str, str]
    by_arrays: bool

    def __call__(self, container: Container, staging: StagingFiles, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per image; those that the file announces and does not have are rejected.

        Args:
          staging: receives the images of a compressed file.

        Raises:
          ChangedError: the file is no longer the version that is listed.
          SampleError: the file does not say how many images it lacks.
        """
        for stack in self.find(container):
            if stack.offset is None:
                check_expansion(stack.count * stack.step, container)
            done = 0
            try:
                with contextlib.ExitStack() as opened:
                    stream = None if stack.offset is not None else opened.enter_context(stack.open())
                    rows = stack.rows(self.cells.needed)
                    for number in range(stack.count):
                        place = _place(container, stack, number, stream, staging)
                        yield self._read(container, stack, number, place, next(rows))
                        done += 1
                    _check_end(stack, stream)
            except SampleError as error:
                if not stack.is_counted or done == stack.count:
                    raise
                numbers, split = range(done, stack.count), self._split(container, stack)
                yield from reject_missing(container, numbers, error, split=split, stem=stack.name)

    def _split(self, container: Container, stack: Stack) -> str | None:
        return stack.split if self.by_arrays else self.splits.get(container.uri)

    def _read(
        self, container: Container, stack: Stack, number: int, place: PixelRange, row: Mapping[str, Any]
    ) -> SampleRef:
        # The shape, so that a file that is read in another way is another one.
        fingerprint = f"{container.fingerprint}@{stack.name}{number}:{stack.axes}{list(stack.shape)}"
        located = Located(_key(stack, number), {IMAGE: place}, stack.size, fingerprint)
        values = {name: row.get(name) for name in self.cells.needed}
        return self.cells.sample(values, located, prefix=container.key_prefix, split=self._split(container, stack))


def open_stacks(
    files: Sequence[InputFile],
    find: FindStacks,
    *,
    class_names: Sequence[str] = (),
    read_name: Callable[[str], str] = str,
    notes: Sequence[str] = (),
    inputs: Inputs,
    settings: TableSettings,
) -> MakeSource:
    """Reads the start of the first file.

    Args:
      files, find, class_names, read_name, notes, inputs, settings: as `StackSource` has them.

    Raises:
      RequestError: it cannot be read.
    """
    first = Container.of(files[0].entry, key_prefix="")
    try:
        stacks = find(first)
        rows = list(itertools.islice(stacks[0].rows(stacks[0].column_types), _ROWS))
    except SampleError as error:
        raise RequestError(f"{quote_input(first.uri)} cannot be read: {error.detail}") from error
    types = stacks[0].column_types
    table = FirstRows(first.uri, tuple(types), types, rows)
    return functools.partial(StackSource, files, find, stacks, table, class_names, read_name, notes, inputs, settings)


def find_axes(shape: Sequence[int]) -> str | None:
    """The axes of an image of this shape; None if it is none."""
    if len(shape) not in (2, 3) or not all(shape):
        return None
    if len(shape) == 2:
        return "HW"
    return "HWC" if shape[2] in (1, 3, 4) else "CHW" if shape[0] in (1, 3, 4) else None


def reading_stack() -> reading:
    """Makes a `SampleError` of what the disk and the decompressors raise, unless the disk is at fault."""
    return reading(_describe_damage)


def _describe_damage(error: Exception) -> SampleError:
    said = "" if isinstance(error, OSError) else "it is damaged, or not complete: "
    return SampleError(Stage.LIST, FailureReason.CORRUPT, f"{said}{error}")


def read_exactly(file: IO[bytes], size: int) -> bytes:
    """The next bytes.

    Raises:
      SampleError: the file ends before.
    """
    with reading_stack():
        data = file.read(size)
        while len(data) < size and (more := file.read(size - len(data))):
            data += more
    if len(data) < size:
        raise _cut(f"{len(data):,} bytes where {size:,} are expected")
    return data


def _place(
    container: Container, stack: Stack, number: int, stream: IO[bytes] | None, staging: StagingFiles
) -> PixelRange:
    name = f"{container.uri}#{_key(stack, number)}"
    if stream is not None:
        pixels = read_exactly(stream, stack.step)[stack.head :]
        copied = staging.add([pixels], size=stack.size, name=name)
        where = copied.uri, copied.offset, copied.length, name, copied.version
    else:
        assert stack.offset is not None
        offset = stack.offset + number * stack.step
        if offset + stack.step > container.size:
            raise _cut(f"it has {container.size:,} bytes, which end in image {number:,} of {stack.count:,}")
        where = container.uri, offset + stack.head, stack.size, name, container.version
    return PixelRange(*where, shape=stack.shape, axes=stack.axes, dtype=stack.dtype)


def _check_end(stack: Stack, stream: IO[bytes] | None) -> None:
    """Checks that nothing follows the last image: the number of images may be what is damaged.

    Raises:
      SampleError: something does.
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
