"""Converts files to stored arrays: any number of channels, each resized alone by the geometry of images.

TIFF and .npy files are read as they are stored, and all other images by their decoder. TIFF files have any number of
channels; Pillow has a mode for at most four. Pillow parses the directories of a file, and its libtiff decodes strips
and tiles as gray rows of bytes; the rest is the layout of TIFF 6.0 (sections 3, 14 and 15), and of Adobe's Technical
Note 3 for floats.
"""

from __future__ import annotations

import dataclasses
import io
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import TiffImagePlugin

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.geometry.geometry import Geometry, swaps_sides
from beam_tfrecords.transforms.images import formats
from beam_tfrecords.transforms.images.convert_pixels import decode_upright
from beam_tfrecords.transforms.images.converted_image import ConvertedImage, describe_raw
from beam_tfrecords.transforms.images.decode import open_image
from beam_tfrecords.transforms.images.decode_errors import check_pixels, decode_error, decoder_errors, unsupported
from beam_tfrecords.transforms.images.image_spec import ArrayType, Axes, ImageEncoding, ImageSpec, Metadata, Pages
from beam_tfrecords.transforms.images.memory import array_memory, check_memory
from beam_tfrecords.transforms.images.orient import plan_geometry
from beam_tfrecords.transforms.images.raw_pixels import BANDS, NPY_HEADERS, NPY_START
from beam_tfrecords.transforms.images.resize import place_array
from beam_tfrecords.transforms.images.tiff import libtiff_errors, open_tiff


def convert_array(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Reads a file as an array, turns it and resizes each channel. This function is pure.

    Args:
      spec: `array_type` is the type of the stored numbers; `channels` is checked by `join_bands`.

    Returns:
      The numbers, [H, W, C] row by row in little-endian order.

    Raises:
      SampleError: as `read_array`; or the type does not hold the numbers.
    """
    assert spec.array_type is not None
    read = read_array(data, spec)
    pixels = _to_array_type(read.pixels, spec.array_type)
    geometry = plan_geometry(*read.size, orientation=read.orientation, spec=spec)
    largest = max(pixels[..., 0].size, math.prod(geometry.resized))
    needed = array_memory(largest, pixels.shape[2], pixels.itemsize)
    check_memory(len(data) + needed, spec, height=geometry.height, width=geometry.width)
    stored = np.empty((*geometry.final, pixels.shape[2]), pixels.dtype.newbyteorder("<"))
    orientation = 1 if read.is_upright else read.orientation
    for channel in range(stored.shape[2]):
        band = np.ascontiguousarray(pixels[..., channel])
        stored[..., channel] = place_array(band, orientation, geometry, spec.resample)
    return _describe(stored, geometry)


def join_bands(bands: Mapping[str, ConvertedImage], spec: ImageSpec) -> ConvertedImage:
    """Joins the arrays of a sample to one with all channels, in their order.

    Args:
      bands: image name -> array, of `array_type`.

    Raises:
      SampleError: reason `unsupported_mode`; they differ in size, or together do not have `channels`.
    """
    (first, image), *_ = bands.items()
    for name, other in bands.items():
        if (other.height, other.width) != (image.height, image.width):
            detail = (
                f"{first} has {image.height} x {image.width}, {name} {other.height} x {other.width} (height x width)"
            )
            how = "`image_size` with `resize_mode=exact` gives all bands one size"
            raise decode_error(FailureReason.UNSUPPORTED_MODE, f"bands of several sizes: {detail}; {how}")
    channels = sum(one.channels for one in bands.values())
    if spec.channels not in (None, channels):
        detail = f"{channels} channels, where the dataset has {spec.channels} (`channels`)"
        raise decode_error(FailureReason.UNSUPPORTED_MODE, detail)
    if len(bands) == 1:
        return image
    arrays = [np.frombuffer(one.data, image.dtype).reshape(one.height, one.width, -1) for one in bands.values()]
    return _describe(np.concatenate(arrays, axis=2), image.geometry)


def _describe(pixels: np.ndarray, geometry: Geometry) -> ConvertedImage:
    return describe_raw(pixels.tobytes(), pixels.shape, pixels.dtype, geometry)


def _to_array_type(pixels: np.ndarray, wanted: ArrayType) -> np.ndarray:
    """Returns numbers as a type that holds all of their values; wider floats are rounded to 32 bits.

    Raises:
      SampleError: the type may not hold them.
    """
    if not np.can_cast(pixels.dtype, wanted.value) and not (pixels.dtype.kind == "f" and wanted is ArrayType.FLOAT32):
        raise unsupported(f"numbers of type {pixels.dtype}, which `array_type={wanted.value}` does not hold")
    return pixels.astype(wanted.value, copy=False)


# Tags of a TIFF.
_SUBFILE, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER = 254, 256, 257, 258, 259, 262, 266
_OFFSETS, _ORIENTATION, _SAMPLES, _ROWS, _COUNTS, _PLANAR, _PREDICTOR = 273, 274, 277, 278, 279, 284, 317
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS, _FORMAT, _DNG_VERSION = 322, 323, 324, 325, 339, 50706
# Bits of the first tag: a smaller copy of another page, and its mask of transparency.
_NO_PAGE = 0b101
_UNCOMPRESSED, _DEFLATE, _LOSSLESS = 1, (8, 32946), {5: "LZW", 32773: "PackBits", 34925: "LZMA", 50000: "Zstandard"}
_KINDS = {1: "u", 2: "i", 3: "f"}
_APART, _NUMBERS, _FLOATS = 2, 2, 3
_PLAIN_COLORS = (1, 2)
_MOST_PAGES = 1000

_Tags = Mapping[int, Any]


class ReadArray(NamedTuple):
    """The array in a file.

    Attributes:
      pixels: [H, W, C] numbers of the type in the file, in native byte order.
      orientation: orientation of the file that the request applies, 1 to 8.
      is_upright: whether the pixels are turned already.
    """

    pixels: np.ndarray
    orientation: int = 1
    is_upright: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the image in the file."""
        height, width = self.pixels.shape[:2]
        return (width, height) if self.is_upright and swaps_sides(self.orientation) else (height, width)


def read_array(data: bytes, spec: ImageSpec) -> ReadArray:
    """Reads a file as an array.

    Raises:
      SampleError: the file cannot be decoded, or it is unclear what its axes or pages are.
    """
    if data.startswith(NPY_START):
        return ReadArray(_read_npy(data, spec))
    return _read_tiff(data, spec) if formats.sniff(data) == "tiff" else _read_image(data, spec)


def _read_npy(data: bytes, spec: ImageSpec) -> np.ndarray:
    file = io.BytesIO(data)
    with decoder_errors():
        read_header = NPY_HEADERS.get(np.lib.format.read_magic(file))
        if read_header is None:
            raise unsupported("a .npy file of another version than 1.0 and 2.0")
        shape, is_fortran, dtype = read_header(file)
    axes = spec.array_axes
    if dtype.names == (BANDS,):
        shape, axes = (*shape, *dtype[BANDS].shape), Axes.HWC
        dtype = dtype[BANDS].base
    count = math.prod(shape)
    if dtype.kind not in "uif" or min(shape, default=0) < 1:
        raise unsupported(f"a .npy file of shape {shape} and type {dtype}; expected numbers")
    if file.tell() + count * dtype.itemsize > len(data):
        raise decode_error(FailureReason.TRUNCATED, f"the .npy file has {len(data)} bytes, less than its {shape} take")
    pixels: np.ndarray = np.frombuffer(data, dtype, count, file.tell()).reshape(shape, order="F" if is_fortran else "C")
    if pixels.ndim == 2:
        pixels = pixels[..., np.newaxis]
    elif pixels.ndim != 3:
        raise unsupported(f"a .npy file of shape {shape}; expected an image of two or three axes")
    elif axes is Axes.CHW:
        pixels = pixels.transpose(1, 2, 0)
    elif axes is None and shape[2] >= min(shape[:2]):
        detail = f"a .npy file of shape {shape}, whose channels may be first or last"
        raise unsupported(f"{detail}; `array_axes=CHW` or `array_axes=HWC` says it")
    height, width, channels = pixels.shape
    check_pixels(height, width, spec.max_pixels)
    needed = array_memory(height * width, channels, dtype.itemsize)
    check_memory(len(data) + needed, spec, height=height, width=width)
    return pixels.astype(dtype.newbyteorder("="), copy=False)


def _read_image(data: bytes, spec: ImageSpec) -> ReadArray:
    """Decodes an image of any other format upright, in its own channels."""
    plain = dataclasses.replace(spec, array_type=None, channels=None, image_encoding=ImageEncoding.PNG)
    file = open_image(data, plain)
    if file.image.mode == "F":
        return ReadArray(np.asarray(file.load(plain).image)[..., np.newaxis])
    is_wide = file.is_16_bit or (file.format == "ppm" and formats.ppm_maximum(data) > 255)
    upright = decode_upright(data, dataclasses.replace(plain, bit_depth=16 if is_wide else 8))
    return ReadArray(upright.pixels, upright.geometry.orientation, is_upright=True)


def _read_tiff(data: bytes, spec: ImageSpec) -> ReadArray:
    """Reads the channels of a TIFF file as they are stored.

    Args:
      spec: `pages` says what several pages are; `orientation` whether the orientation counts.

    Raises:
      SampleError: the file is damaged, too large or of another kind, or has several pages and `pages` is not given.
    """
    with decoder_errors():
        pages = [page for page in _read_pages(data) if not page.get(_SUBFILE, 0) & _NO_PAGE]
        if not pages or _DNG_VERSION in pages[0]:
            raise decode_error(FailureReason.UNSUPPORTED_FORMAT, "camera raw files (DNG, NEF, ...) are not arrays")
        if len(pages) > 1 and spec.pages is None:
            detail = f"a TIFF of {len(pages)} pages; `pages=bands` takes all as channels, `pages=first` the first"
            raise unsupported(detail)
        pages = pages if spec.pages is Pages.BANDS else pages[:1]
        arrays = [_read_page(data, page, spec, of=len(pages)) for page in pages]
        orientation = pages[0].get(_ORIENTATION, 1) if spec.orientation is Metadata.APPLY else 1
    kinds = sorted({f"{one.shape[0]} x {one.shape[1]} of {one.dtype}" for one in arrays})
    if len(kinds) > 1:
        raise unsupported(f"a TIFF with pages of {' and '.join(kinds)}; `pages=bands` needs pages of one kind")
    is_known = swaps_sides(orientation) or orientation in range(1, 5)
    pixels = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=2)
    return ReadArray(pixels, orientation if is_known else 1)


def _read_pages(data: bytes) -> Iterator[TiffImagePlugin.ImageFileDirectory_v2]:
    """Yields the tags of each page."""
    is_big = data[2:4] in (b"+\0", b"\0+")
    if is_big and data.startswith(b"MM"):
        raise unsupported("a TIFF of the 64-bit kind (BigTIFF), in big-endian order")
    file, seen = io.BytesIO(data), set[int]()
    tags = TiffImagePlugin.ImageFileDirectory_v2(file.read(16 if is_big else 8))
    while tags.next:
        if tags.next in seen or len(seen) == _MOST_PAGES:
            raise unsupported(f"a TIFF whose pages go round in a circle, or of more than {_MOST_PAGES:,} pages")
        seen.add(tags.next)
        # Pillow goes on without tags that are cut, such as the type of the numbers.
        if (end := formats.end_of_tiff(data, tags.next)) > len(data):
            detail = f"the TIFF goes on to byte {end}, the file has {len(data)}"
            raise decode_error(FailureReason.TRUNCATED, detail)
        file.seek(tags.next)
        page = TiffImagePlugin.ImageFileDirectory_v2(data[: 16 if is_big else 8])
        page.load(file)
        yield page
        tags = page


def _read_page(data: bytes, tags: TiffImagePlugin.ImageFileDirectory_v2, spec: ImageSpec, *, of: int) -> np.ndarray:
    """Reads the pixels of a page as [H, W, C].

    Args:
      of: number of such pages, for the estimate of memory.
    """
    height, width, samples = int(tags[_HEIGHT]), int(tags[_WIDTH]), int(tags.get(_SAMPLES, 1))
    check_pixels(height, width, spec.max_pixels)
    dtype = _find_dtype(tags)
    needed = array_memory(height * width, of * samples, dtype.itemsize)
    check_memory(len(data) + needed, spec, height=height, width=width)
    is_tiled, is_apart = _TILE_WIDTH in tags, tags.get(_PLANAR) == _APART
    planes, together = (samples, 1) if is_apart else (1, samples)
    rows = int(tags[_TILE_HEIGHT]) if is_tiled else min(int(tags.get(_ROWS, height)), height)
    columns = int(tags[_TILE_WIDTH]) if is_tiled else width
    offsets, counts = (_each(tags[one]) for one in ((_TILE_OFFSETS, _TILE_COUNTS) if is_tiled else (_OFFSETS, _COUNTS)))
    across = -(-width // columns)
    parts = -(-height // rows) * across
    if len(offsets) != planes * parts or len(counts) != len(offsets):
        raise decode_error(FailureReason.CORRUPT, f"{len(offsets)} strips or tiles where {planes * parts} are expected")
    pixels = np.empty((planes, height, width, together), dtype.newbyteorder("="))
    for number, (start, count) in enumerate(zip(offsets, counts, strict=True)):
        plane, place = divmod(number, parts)
        top, left = place // across * rows, place % across * columns
        shape = rows if is_tiled else min(rows, height - top), columns, together
        if not count:
            raise decode_error(FailureReason.TRUNCATED, f"strip or tile {number} is missing")
        part = _decode_part(data[start : start + count], shape, dtype, tags)
        seen = pixels[plane, top : top + rows, left : left + columns]
        seen[...] = part[: seen.shape[0], : seen.shape[1]]
    return pixels[..., 0].transpose(1, 2, 0) if is_apart else pixels[0]


def _find_dtype(tags: _Tags) -> np.dtype[Any]:
    """Returns the type of the numbers in the file.

    Raises:
      SampleError: the file has another kind of pixels.
    """
    bits, formats, order = {*_each(tags.get(_BITS, 1))}, {*_each(tags.get(_FORMAT, 1))}, tags.get(_FILL_ORDER, 1)
    colors = tags.get(_PHOTOMETRIC, _PLAIN_COLORS[0])
    kind = _KINDS.get(next(iter(formats), 0), "")
    is_number = len(bits) == len(formats) == 1 and bits <= ({32, 64} if kind == "f" else {8, 16, 32})
    if not (kind and is_number and order == 1 and colors in _PLAIN_COLORS):
        detail = f"bits {sorted(bits)}, sample format {sorted(formats)}, fill order {order}, photometric {colors}"
        raise unsupported(f"a TIFF without a plain array of numbers: {detail}")
    prefix = ">" if getattr(tags, "prefix", b"II") == b"MM" else "<"
    return np.dtype(f"{prefix}{kind}{bits.pop() // 8}")


def _decode_part(data: bytes, shape: tuple[int, int, int], dtype: np.dtype[Any], tags: _Tags) -> np.ndarray:
    """Decodes a strip or a tile to [rows, columns, channels]."""
    size = math.prod(shape) * dtype.itemsize
    raw = _decompress(data, shape[0], size // shape[0], tags.get(_COMPRESSION, _UNCOMPRESSED))
    if len(raw) < size:
        raise decode_error(FailureReason.TRUNCATED, f"a strip or tile of {len(raw)} bytes, where {size} are expected")
    predictor = tags.get(_PREDICTOR, 1)
    if predictor == _FLOATS and dtype.kind == "f":
        steps = np.frombuffer(raw, np.uint8, size).reshape(shape[0], -1, shape[2])
        planes = steps.cumsum(axis=1, dtype=np.uint8).reshape(shape[0], dtype.itemsize, -1)
        # The planes of bytes begin with the highest, whatever the order of the file.
        numbers = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(dtype.newbyteorder(">"))
        return numbers.reshape(shape)
    pixels = np.frombuffer(raw, dtype, math.prod(shape)).reshape(shape)
    if predictor == _NUMBERS:
        # Differences wrap around, and those of floats are of their bits.
        unsigned = np.dtype(f"u{dtype.itemsize}")
        bits = pixels.view(unsigned.newbyteorder(dtype.byteorder))
        return bits.cumsum(axis=1, dtype=unsigned).view(dtype.newbyteorder("="))
    if predictor != 1:
        raise unsupported(f"a TIFF with predictor {predictor} for {dtype.newbyteorder('=')}")
    return pixels


def _decompress(data: bytes, rows: int, row_bytes: int, compression: int) -> bytes:
    if compression == _UNCOMPRESSED:
        return data
    if compression in _DEFLATE:
        inflater = zlib.decompressobj()
        # One more byte than expected makes zlib read on to the checksum.
        raw = inflater.decompress(data, rows * row_bytes + 1)
        if len(raw) == rows * row_bytes and not inflater.eof:
            raise decode_error(FailureReason.TRUNCATED, "truncated Deflate data")
        return raw
    if compression not in _LOSSLESS:
        raise unsupported(
            f"a TIFF of {TiffImagePlugin.COMPRESSION_INFO.get(compression, compression)}; arrays are read from "
            f"uncompressed ones, and from Deflate, {', '.join(_LOSSLESS.values())}"
        )
    with libtiff_errors() as errors:
        image = open_tiff(io.BytesIO(_wrap(data, rows, row_bytes, compression)))
        image.load()
    if errors:
        raise decode_error(FailureReason.CORRUPT, errors[0])
    return image.tobytes()


def _wrap(data: bytes, rows: int, row_bytes: int, compression: int) -> bytes:
    """Makes a gray TIFF file of one strip, whose pixels are the bytes of a strip or a tile."""
    tags = {
        _WIDTH: row_bytes, _HEIGHT: rows, _BITS: 8, _COMPRESSION: compression, _PHOTOMETRIC: 1, _OFFSETS: 8,
        _SAMPLES: 1, _ROWS: rows, _COUNTS: len(data),
    }  # fmt: skip
    padded = data + b"\0" * (len(data) % 2)
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    head = struct.pack("<2sHI", b"II", 42, 8 + len(padded))
    return head + padded + struct.pack("<H", len(tags)) + entries + b"\0\0\0\0"


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)
