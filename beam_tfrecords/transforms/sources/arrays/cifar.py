"""The source for CIFAR-10 and CIFAR-100, binary version (cs.toronto.edu/~kriz/cifar.html): labels, then RGB planes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.class_list import ClassList
from beam_tfrecords.transforms.sources.arrays.stacks import Stack, open_stacks, read_exactly, reading_stack
from beam_tfrecords.transforms.sources.class_files import FoundClasses, read_classes
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.partition import Partition, find_files_below
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest

_TEN = re.compile(r"(?:data_batch_\d|test_batch)\.bin", re.IGNORECASE)
_HUNDRED = re.compile(r"(?:train|test)\.bin", re.IGNORECASE)
_FILE = re.compile(f"{_TEN.pattern}|{_HUNDRED.pattern}", re.IGNORECASE)
_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
# Column, in byte order -> file with its class names.
_COLUMNS_TEN = {"label": "batches.meta.txt"}
_COLUMNS_HUNDRED = {"coarse_label": "coarse_label_names.txt", "label": "fine_label_names.txt"}


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the files, and the class names next to them.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    inputs, table = request.inputs, request.spec
    files = find_files_below(
        inputs, _FILE, "file of CIFAR's binary version in it, such as data_batch_1.bin or train.bin"
    )
    kinds = [_columns_of(file.uri) for file in files]
    if any(kind != kinds[0] for kind in kinds):
        raise RequestError(
            f"{quote_input(inputs.paths[0])} has files of CIFAR-10 and of CIFAR-100; convert them separately",
            code="sources_differ",
        )
    paths = {column: storage.join(storage.dirname(files[0].uri), file) for column, file in kinds[0].items()}
    label = table.label_column or "label"
    # The numbers of the label may count from 0 or from 1; the build names them.
    found = [FoundClasses(path, _read_names(path)) for path in [paths.get(label)] if path]
    names = {column: () if column == label else _read_names(path).names for column, path in paths.items()}
    return open_stacks(
        files,
        functools.partial(_find_stacks, names),
        found_classes=[one for one in found if one.classes],
        read_name=lambda path: path.replace("data_batch", "train_batch"),
        request=request,
    )


def _find_stacks(names: Mapping[str, Sequence[str]], partition: Partition) -> list[Stack]:
    """Returns the images of a file. If the last image is truncated, the number of lost images is unknown.

    Args:
      names: column, in byte order -> its class names; empty if unknown.
      partition: the file.
    """
    step = len(names) + _PIXELS
    count = -(-partition.size // step)
    return [
        Stack(
            name="",
            count=count,
            shape=_SHAPE,
            axes="CHW",
            dtype="|u1",
            step=step,
            column_types={column: "bytes" if classes else "int64" for column, classes in names.items()},
            rows=lambda _: _rows(names, partition, step, count),
            offset=0,
            open=lambda: storage.open_read(partition.uri, version=partition.version),
            head=len(names),
            is_counted=False,
        )
    ]


def _rows(
    names: Mapping[str, Sequence[str]], partition: Partition, step: int, count: int
) -> Iterator[Mapping[str, Any]]:
    with reading_stack(), storage.open_read(partition.uri, version=partition.version) as file:
        for _ in range(count):
            record = read_exactly(file, step)
            yield {
                column: classes[number] if number < len(classes) else number
                for number, (column, classes) in zip(record, names.items(), strict=False)
            }


def _columns_of(path: str) -> Mapping[str, str]:
    """Returns the columns of a file, based on its name.

    Raises:
      RequestError: the name is not one of CIFAR's file names.
    """
    name = storage.basename(path)
    if _TEN.fullmatch(name):
        return _COLUMNS_TEN
    if _HUNDRED.fullmatch(name):
        return _COLUMNS_HUNDRED
    raise RequestError(
        f"{quote_input(path)}: expected a name of CIFAR's binary version: data_batch_1.bin, test_batch.bin, train.bin "
        "or test.bin",
        code="unknown_file_name",
    )


def _read_names(path: str) -> ClassList:
    return read_classes(path) if storage.is_file(path) else ClassList(())
