"""The source for IDX files (yann.lecun.com/exdb/mnist) of MNIST, EMNIST, Fashion-MNIST and similar datasets."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import math
import re
import struct
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.transforms.sources.arrays.stacks import Stack, find_axes, open_stacks, read_exactly, reading_stack
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.partition import Partition, find_files_below
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest

# train-images-idx3-ubyte as distributed, or t10k-images.idx3-ubyte as some programs write.
_FILE = re.compile(r"[^/]*(?:images|labels)[.-]idx\d-(?:ubyte|int)(?:\.gz)?", re.IGNORECASE)
# EMNIST stores its images transposed.
_TRANSPOSED = re.compile(r"emnist-", re.IGNORECASE)
# Third byte of a file -> dtype; all are big-endian.
_DTYPES = {8: "|u1", 9: "|i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_CHUNK = 1 << 14
_GZ = re.compile(r"\.gz$", re.IGNORECASE)


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the image files, and the label files next to them.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    inputs = request.inputs
    files = find_files_below(inputs, _FILE, "IDX file in it, such as train-images-idx3-ubyte.gz")
    images = [file for file in files if "images" in storage.basename(file.uri).lower()]
    names = {file.uri for file in images}
    # Some compressed files are also there without .gz.
    images = [_of_images(one) for one in images if _GZ.sub("", one.uri) not in names - {one.uri}]
    if not images:
        path = files[0].uri
        raise RequestError(
            f"{quote_input(path)} holds labels; expected images, such as train-images-idx3-ubyte",
            code="labels_without_images",
        )
    labels = {file.uri: found for file in images if (found := _labels_of(file.uri))}
    transposed = any(_TRANSPOSED.match(storage.basename(file.uri)) for file in images)
    notes = ["rows and columns are exchanged, because EMNIST stores its images lying"] if transposed else []
    return open_stacks(
        images,
        functools.partial(_find_stacks, labels),
        notes=notes,
        request=request,
    )


def _find_stacks(label_files: Mapping[str, str], partition: Partition) -> list[Stack]:
    """Returns the images of a file.

    Args:
      label_files: image file -> label file.
      partition: the image file.

    Raises:
      SampleError: a file cannot be read, or the numbers of images and labels differ.
    """
    with _opened(partition.uri, partition.version) as (file, is_compressed):
        dtype, shape = _read_header(file)
    axes = find_axes(shape[1:])
    if axes is None or dtype != "|u1":
        raise _corrupt(f"numbers of the type {dtype} and the shape {shape}; expected bytes, [N, H, W]")
    if _TRANSPOSED.match(storage.basename(partition.uri)) and axes == "HW":
        axes = "WH"
    labels = label_files.get(partition.uri)
    if labels is not None:
        with _opened(labels) as (file, _):
            _, (count, *_) = _read_header(file)
        if count != shape[0]:
            raise _corrupt(f"{shape[0]:,} images, but {storage.basename(labels)} has {count:,} labels")
    start = 4 + 4 * len(shape)
    return [
        Stack(
            name="",
            count=shape[0],
            shape=shape[1:],
            axes=axes,
            dtype=dtype,
            step=math.prod(shape[1:]),
            column_types={"label": "int64"} if labels else {},
            rows=lambda _: _rows(labels, shape[0]),
            offset=None if is_compressed else start,
            open=lambda: _stream(partition),
            end=partition.size,
        )
    ]


def _of_images(file: Partition) -> Partition:
    """Returns the file with a key prefix that does not depend on its compression."""
    return dataclasses.replace(file, key_prefix=_GZ.sub("", file.key_prefix.rstrip("/")) + file.key_prefix[-1:])


def _labels_of(path: str) -> str | None:
    """Finds the label file, compressed or not, next to an image file; returns None without one."""
    name = re.sub(r"images([.-])idx3", r"labels\1idx1", storage.basename(path), flags=re.IGNORECASE)
    plain = _GZ.sub("", name)
    found = (storage.join(storage.dirname(path), one) for one in dict.fromkeys((name, plain, f"{plain}.gz")))
    return next((one for one in found if one != path and storage.is_file(one)), None)


@contextlib.contextmanager
def _opened(uri: str, version: str = "") -> Iterator[tuple[IO[bytes], bool]]:
    """Opens a file, decompresses it if needed, and yields it with whether it is compressed."""
    with reading_stack(), storage.open_read(uri, version=version) as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        yield (cast(IO[bytes], gzip.GzipFile(fileobj=file)) if is_compressed else file), is_compressed


@contextlib.contextmanager
def _stream(partition: Partition) -> Iterator[IO[bytes]]:
    with _opened(partition.uri, partition.version) as (file, _):
        _read_header(file)
        yield file


def _read_header(file: IO[bytes]) -> tuple[str, tuple[int, ...]]:
    """Reads the dtype and the shape."""
    zeros, kind, axes = struct.unpack(">HBB", read_exactly(file, 4))
    if zeros or kind not in _DTYPES or not axes:
        raise _corrupt("it does not begin with the header of an IDX file")
    return _DTYPES[kind], struct.unpack(f">{axes}I", read_exactly(file, 4 * axes))


def _rows(labels: str | None, count: int) -> Iterator[Mapping[str, Any]]:
    if labels is None:
        yield from ({} for _ in range(count))
        return
    with _opened(labels) as (file, _):
        dtype, _ = _read_header(file)
        size = np.dtype(dtype).itemsize
        for start in range(0, count, _CHUNK):
            chunk = np.frombuffer(read_exactly(file, size * min(_CHUNK, count - start)), dtype)
            yield from ({"label": label} for label in chunk.tolist())


def _corrupt(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)
