"""The source for NumPy files: .npz archives of arrays, and .npy files with labels in a second .npy file.

Never unpickles: arrays of Python objects are not read.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeVar, cast

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.storage.members import HEADER_BYTES, local_header_length
from beam_tfrecords.storage.reading import parsing
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.images.raw_pixels import NPY_HEADERS
from beam_tfrecords.transforms.sources.arrays.stacks import Stack, find_axes, open_stacks, read_exactly, reading_stack
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.partition import Partition, find_files_below
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE

_FILE = re.compile(r"[^/]*\.np[yz]", re.IGNORECASE)
_IMAGE_WORDS = ("x", "images", "image", "imgs", "img", "data", "pixels")
_LABEL_WORDS = ("y", "labels", "label", "targets", "target", "classes")
# Kind of a dtype -> type of a column.
_TYPES = {"b": "int64", "i": "int64", "u": "int64", "f": "float", "U": "bytes", "S": "bytes"}
_PIXELS = ("|u1", "<u2", ">u2")
# Number of bytes to read at once from each column.
_CHUNK_BYTES = 1 << 16
_MOST_ARRAYS = 10_000
_MOST_OFFERED = 3
# Number of headers to read concurrently.
_THREADS = 8

Opened = TypeVar("Opened", zipfile.ZipFile, IO[bytes])


class _Array(NamedTuple):
    """An array in a file.

    Attributes:
      path: path of the file.
      member: member of the archive; "" for a .npy file.
      shape: shape of the array.
      dtype: type of the numbers.
      is_fortran: whether the first axis changes fastest.
      offset: offset of the first number in the file; None if compressed.
      length: bytes of the numbers that the file or archive contains.
    """

    path: str
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    offset: int | None
    length: int

    @property
    def words(self) -> list[str]:
        """Words of the array's name, in lower case."""
        name = self.name.removesuffix(".npy").lower()
        return re.findall(r"[^\W_]+", name) or [name]

    @property
    def name(self) -> str:
        """Name of the array in its archive, or of its file."""
        return self.member.removesuffix(".npy") or storage.basename(self.path)

    @property
    def split(self) -> str | None:
        """Split in the array's name, or None."""
        return next((SPLIT_NAMES[word] for word in self.words if word in SPLIT_NAMES), None)

    @property
    def column(self) -> str:
        """Array's name without the split."""
        return "_".join(word for word in self.words if word not in SPLIT_NAMES) or self.words[0]


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the files, and the label files of .npy files.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    inputs, table = request.inputs, request.spec
    files = find_files_below(inputs, _FILE, "NumPy file in it, .npz or .npy")
    labels = {file.uri: _label_file(file.uri) for file in files}
    # A folder or glob may include the label files.
    images = [file for file in files if file.uri not in labels.values()]
    if not images:
        raise RequestError(f"{quote_input(inputs.paths[0])} has labels and no images", code="labels_without_images")
    beside = {path: label for path, label in labels.items() if label}
    # A folder or glob may also include other arrays.
    alone = [file for file in images if file.uri not in beside] if len(images) > 1 else []
    others = {
        file.uri: arrays
        for file, arrays in zip(alone, map_in_threads(_try_arrays, alone, threads=_THREADS), strict=True)
        if arrays and not _find_images(arrays, None)
    }
    images = [file for file in images if file.uri not in others] or images
    arrays = _try_arrays(images[0])
    _refuse_unclear(images[0].uri, arrays, table.image_column)
    return open_stacks(
        images,
        functools.partial(_find_stacks, beside, table.image_column),
        unused=list(_describe_unused([*arrays, *itertools.chain(*others.values())], table.image_column)),
        request=request,
    )


def _try_arrays(file: Partition) -> list[_Array]:
    """Returns the arrays of a file; none if it is damaged, which reading it reports."""
    with contextlib.suppress(SampleError):
        return list(_arrays(file.uri, file.version))
    return []


def _describe_unused(arrays: Sequence[_Array], image: str | None) -> Iterator[str]:
    """Says which arrays are neither the images nor a value for each of them, such as class names."""
    images = _find_images(arrays, image)
    for array in arrays:
        if array not in images and not any(array.member and _is_column(array, of) for of in images):
            what, more = f"the shape {list(array.shape)}", ""
            if _has_texts(array):
                what, more = f"{array.shape[0]:,} texts", "; `class_names` decides the classes"
            elif len(array.shape) == len(images) == 1:
                what = f"{array.shape[0]:,} values for {images[0].shape[0]:,} images"
            yield f"the array {array.name!r} has {what} and is not used{more}"


def _refuse_unclear(path: str, arrays: Sequence[_Array], image: str | None) -> None:
    """Checks that at most one array has the images of each split; offers the arrays that may have them."""
    images = _find_images(arrays, image)
    if _are_clear(images):
        return
    alike: dict[str, list[_Array]] = {}
    for array in images:
        alike.setdefault(array.column if array.split else array.name, []).append(array)
    readings = [
        Reading(f"the images in {', '.join(one.name for one in several)}", {"image_column": name})
        for name, several in sorted(alike.items(), key=lambda one: -len(one[1]))
    ]
    raise RequestError(
        f"{quote_input(path)} cannot be read: several arrays may be the images; name one with `image_column`; "
        f"{_describe(images)}",
        readings[:_MOST_OFFERED],
        code="invalid_file",
    )


def _find_images(arrays: Sequence[_Array], image: str | None) -> list[_Array]:
    """Returns the arrays of images, by the setting `image_column` if there is one."""
    if image is None:
        return [array for array in arrays if len(array.shape) > 2]
    return [one for one in arrays if image in (one.column, one.member.removesuffix(".npy"))]


def _are_clear(images: Sequence[_Array]) -> bool:
    """Whether at most one array has the images of each split."""
    splits = [array.split for array in images]
    return len(set(splits)) == len(splits) and (None not in splits or len(splits) == 1)


def _is_column(array: _Array, images: _Array) -> bool:
    """Whether an array has values of the images."""
    is_for_each = len(array.shape) in (1, 2) and array.shape[0] == images.shape[0]
    return is_for_each and (array.split == images.split or not images.member)


def _has_texts(array: _Array) -> bool:
    return len(array.shape) == 1 and array.dtype.kind in "USO"


def _find_stacks(label_files: Mapping[str, str], image: str | None, partition: Partition) -> list[Stack]:
    """Returns the images of a file, in the order of its arrays.

    Args:
      label_files: .npy file of images -> .npy file of their labels.
      image: name of the array with the images, with or without its split; None to detect it.
      partition: the file.

    Raises:
      SampleError: the file cannot be read, or it is unclear which array contains the images.
    """
    arrays = list(_arrays(partition.uri, partition.version))
    if partition.uri in label_files:
        arrays += _arrays(label_files[partition.uri])
    images = _find_images(arrays, image)
    if not images:
        texts = (
            "; give files of images as `input`, and class names as `class_names`"
            if any(map(_has_texts, arrays))
            else ""
        )
        raise _refused(f"it has no array of images, [N, H, W] or [N, H, W, C]; {_describe(arrays)}{texts}")
    if not _are_clear(images):
        raise _refused(f"several arrays may be the images; name one with `image_column`; {_describe(images)}")
    return [_make_stack(partition, array, arrays, label_files.get(partition.uri)) for array in images]


def _make_stack(partition: Partition, images: _Array, arrays: Sequence[_Array], label_file: str | None) -> Stack:
    count, shape = images.shape[0], images.shape[1:]
    is_npz = bool(images.member)
    columns = {array.column: array for array in arrays if _is_column(array, images)}
    if label_file is not None and not columns:
        raise _refused(f"{count:,} images, but {label_file} has not as many labels")
    labels = [one for one in arrays if one.shape == images.shape[-1:] and one.split == images.split]
    # Fewer are the channels of an image.
    if labels and not columns and count != images.shape[-1] > 4:
        raise _refused(
            f"{_describe([images, labels[0]])}, so the images lie along the last axis, as MATLAB writes them; save "
            "numpy.ascontiguousarray(numpy.moveaxis(x, -1, 0))"
        )
    objects = [name for name, array in columns.items() if array.dtype.hasobject]
    # Excludes values that exceed the limit for a table row.
    columns = {
        name: array
        for name, array in columns.items()
        if array.dtype.kind in _TYPES and _row_bytes(array) <= MOST_ROW_SIZE
    }
    if objects and not columns:
        raise _refused(
            f"the array {objects[0]!r} holds Python objects, which are not read, because a pickle may run any "
            "code; save its numbers or texts: numpy.array(list(values))"
        )
    axes = _check_images(images)
    return Stack(
        name=f"{images.member.removesuffix('.npy')}/" if is_npz else "",
        count=count,
        shape=shape,
        axes=axes,
        dtype=images.dtype.str,
        step=images.dtype.itemsize * math.prod(shape),
        column_types={name: _TYPES[array.dtype.kind] for name, array in columns.items()},
        rows=lambda names: _rows({name: columns[name] for name in names if name in columns}, count),
        offset=images.offset,
        open=lambda: _stream(images, partition.version),
        split=images.split if is_npz else None,
        end=None if images.offset is None else images.offset + images.length,
    )


def _check_images(array: _Array) -> str:
    """Returns the axes of an image.

    Raises:
      SampleError: the array does not contain images.
    """
    shown = (
        f"{array.member or storage.basename(array.path)} has the shape {list(array.shape)} and the type {array.dtype}"
    )
    axes = find_axes(array.shape[1:])
    if axes is None or (len(array.shape) == 3 and array.shape[2] <= 4):
        raise _refused(f"{shown}; expected images, [N, H, W] or [N, H, W, C] with 1, 3 or 4 channels")
    if array.dtype.str not in _PIXELS:
        raise _refused(
            f"{shown}; expected uint8 or uint16, because the array does not say which number is white; for "
            "numbers from 0 to 1, save (x * 255).round().astype('uint8')"
        )
    if array.is_fortran and array.shape[0] > 1:
        raise _refused(f"{shown} in Fortran order, so no image is contiguous; save numpy.ascontiguousarray(x)")
    return axes


def _label_file(path: str) -> str | None:
    """Finds the label file of a .npy file, such as y_train.npy for x_train.npy, or labels.npy; None without one."""
    if not path.lower().endswith(".npy"):
        return None
    name = storage.basename(path)[: -len(".npy")]
    words = re.split(r"([\W_]+)", name)
    # Y.npy belongs to X.npy.
    labels = [form for label in _LABEL_WORDS for form in (label, label.upper())]
    names = ["".join(label if word.lower() in _IMAGE_WORDS else word for word in words) for label in labels]
    paths = [storage.join(storage.dirname(path), f"{one}.npy") for one in dict.fromkeys(names) if one != name]
    return next(filter(storage.is_file, paths), None)


def _arrays(path: str, version: str = "") -> Iterator[_Array]:
    """Yields the arrays of a file, based on their headers.

    Raises:
      SampleError: the file is damaged.
    """
    with reading_stack(), storage.open_read(path, version=version) as file:
        if not path.lower().endswith(".npz"):
            shape, is_fortran, dtype = _read_header(file)
            start = file.tell()
            length = file.seek(0, io.SEEK_END) - start
            yield _Array(path, "", shape, dtype, is_fortran=is_fortran, offset=start, length=length)
            return
        with _unzipped(functools.partial(zipfile.ZipFile, file)) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            if len(members) > _MOST_ARRAYS:
                raise _refused(f"{len(members):,} arrays; expected a few, with an image in each row")
            for member in members:
                with _unzipped(functools.partial(archive.open, member)) as content:
                    shape, is_fortran, dtype = _read_header(content)
                    start = content.tell()
                offset = None
                if member.compress_type == zipfile.ZIP_STORED:
                    file.seek(member.header_offset)
                    header = local_header_length(read_exactly(file, HEADER_BYTES))
                    if header is None:
                        raise _refused("a member without a local header where the archive says")
                    offset = member.header_offset + header + start
                length = member.file_size - start
                yield _Array(path, member.filename, shape, dtype, is_fortran=is_fortran, offset=offset, length=length)


@contextlib.contextmanager
def _unzipped(opened: Callable[[], Opened]) -> Iterator[Opened]:
    """Opens an archive or a member of an archive."""
    try:
        content = opened()
    # Encryption, a compression method or a version that zipfile does not support.
    except (RuntimeError, NotImplementedError) as error:
        raise _refused(str(error)) from error
    with content:
        yield content


@contextlib.contextmanager
def _stream(array: _Array, version: str = "") -> Iterator[IO[bytes]]:
    """Opens the numbers of an array as a stream."""
    with contextlib.ExitStack() as opened:
        opened.enter_context(reading_stack())
        file = opened.enter_context(storage.open_read(array.path, version=version))
        if array.member:
            archive = opened.enter_context(_unzipped(functools.partial(zipfile.ZipFile, file)))
            file = opened.enter_context(_unzipped(functools.partial(archive.open, array.member)))
        _read_header(file)
        yield file


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads the shape, whether the first axis changes fastest, and the dtype."""
    # The header is a Python expression.
    with parsing():
        version = np.lib.format.read_magic(file)
        if version in NPY_HEADERS:
            return NPY_HEADERS[version](file)
    raise _refused(f"version {version} of NumPy's format; expected 1.0 or 2.0")


def _rows(columns: Mapping[str, _Array], count: int) -> Iterator[Mapping[str, Any]]:
    """Yields the values of each image; reads the numbers of several images at once."""
    with contextlib.ExitStack() as opened:
        streams = {name: opened.enter_context(_stream(array)) for name, array in columns.items()}
        largest = max(map(_row_bytes, columns.values()), default=1)
        step = max(1, _CHUNK_BYTES // max(largest, 1))
        for start in range(0, count, step):
            rows = min(step, count - start)
            chunk = {name: _read(streams[name], array, rows) for name, array in columns.items()}
            for at in range(rows):
                yield {name: values[at] for name, values in chunk.items()}


def _read(stream: IO[bytes], array: _Array, rows: int) -> list[Any]:
    width = math.prod(array.shape[1:])
    data = read_exactly(stream, rows * _row_bytes(array))
    with parsing():
        values = np.frombuffer(data, array.dtype)
        return cast("list[Any]", (values if width == 1 else values.reshape(rows, width)).tolist())


def _row_bytes(array: _Array) -> int:
    return math.prod(array.shape[1:]) * array.dtype.itemsize


def _describe(arrays: Sequence[_Array]) -> str:
    shown = [f"{array.name} {list(array.shape)}" for array in arrays[:10]]
    return f"it has: {', '.join(shown)}"


def _refused(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.UNSUPPORTED_FORMAT, detail)
