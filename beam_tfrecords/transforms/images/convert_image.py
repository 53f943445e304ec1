"""Converts or keeps the bytes of an image file, or decodes them to pixels for users' functions."""

from __future__ import annotations

import dataclasses

import numpy as np

from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images import formats
from beam_tfrecords.transforms.images.color import largest_value, stored_channels
from beam_tfrecords.transforms.images.convert_array import convert_array
from beam_tfrecords.transforms.images.convert_pixels import Upright, decode_upright, place_pixels
from beam_tfrecords.transforms.images.converted_image import COLORSPACES, ConvertedImage, encode
from beam_tfrecords.transforms.images.decode import OpenedImage, check_whole_jpeg, open_image
from beam_tfrecords.transforms.images.decode_errors import check_pixels
from beam_tfrecords.transforms.images.image_spec import (
    IMPOSSIBLE_CHANNELS,
    ImageEncoding,
    ImageSpec,
    Metadata,
    ResizeMode,
)
from beam_tfrecords.transforms.images.jpeg_header import JPEG_START, parse_jpeg_header
from beam_tfrecords.transforms.images.memory import check_memory, jpeg_coefficients
from beam_tfrecords.transforms.images.orient import orientation_for, plan_geometry
from beam_tfrecords.transforms.images.plain_png import parse_plain_png


def convert_image(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Decodes, turns, resizes and encodes one image. This function is pure.

    Raises:
      SampleError: the bytes are not an image, or the image cannot be converted.
      OSError: a service fault.
      MemoryError: memory ran out.
    """
    if spec.array_type is not None:
        return convert_array(data, spec)
    if spec.image_encoding is not ImageEncoding.KEEP:
        return encode(place_pixels(data, spec), spec)
    kept = keep_file(data, spec)
    if isinstance(kept, ConvertedImage):
        return kept
    converted, name = convert_image(data, kept), formats.sniff(data)
    is_replaced = converted.format != name and not is_of_kept_kind(data, name)
    return dataclasses.replace(converted, replaced_format=name if is_replaced else None)


def decode_pixels(data: bytes, spec: ImageSpec) -> Upright:
    """Reads a file upright and in its own size: as an array if the request stores arrays, else as `decode_upright`.

    Raises:
      SampleError: as `convert_image`.
    """
    if spec.array_type is None:
        return decode_upright(data, spec)
    made = convert_array(data, dataclasses.replace(spec, image_size=None, resize_mode=ResizeMode.SHORTER))
    pixels = np.frombuffer(made.data, made.dtype).reshape(made.height, made.width, made.channels)
    return Upright(pixels, made.geometry)


_OWN_ENCODINGS = {"jpeg": ImageEncoding.JPEG, "png": ImageEncoding.PNG}


def is_of_kept_kind(data: bytes, name: str) -> bool:
    """Whether a file is a PNG or a plain JPEG, which every version of TensorFlow reads.

    TensorFlow reads other formats and CMYK JPEGs in some versions and builds, or to other pixels.

    Args:
      data: the file. Its pixels are not checked.
      name: name of its format.
    """
    if name == "jpeg":
        header = parse_jpeg_header(data)
        return header is not None and header.is_plain
    return name == "png"


def keep_file(data: bytes, spec: ImageSpec) -> ConvertedImage | ImageSpec:
    """Keeps the source's bytes if the file is a PNG or a plain JPEG and the request needs no change.

    `image_size` refers to the upright image, so with it an EXIF orientation is applied. Without `image_size` the
    orientation stays in the file, and height and width describe the file's pixels.

    Returns:
      The kept image, or else the settings for converting it: a changed image keeps its format if that is JPEG or PNG;
      all others become PNG.

    Raises:
      SampleError: as `convert_image`.
    """
    if kept := _keep_plain(data, spec):
        return kept
    file = open_image(data, spec)
    changes = spec.channels not in (None, stored_channels(file.image))
    if spec.image_size is not None and not changes:
        geometry = plan_geometry(*file.size, orientation=orientation_for(file.image, spec), spec=spec)
        changes = geometry.orientation != 1 or geometry.resized != file.size or geometry.final != file.size
    if changes or not is_of_kept_kind(data, file.format):
        return spec_of_changed(spec, file.format if changes else "png")
    return _decode(file, spec)


def check_file(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Describes a stored file of any format and decodes every pixel of it.

    Args:
      spec: settings without a size and channels.

    Raises:
      SampleError: as `convert_image`.
    """
    return _keep_plain(data, spec) or _decode(open_image(data, spec), spec)


def read_header(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Describes a stored file of any format by its header, without decoding its pixels.

    Raises:
      SampleError: as `convert_image`.
    """
    file = open_image(data, spec)
    return _kept(
        data, file.format, *file.size, stored_channels(file.image), orientation_for(file.image, spec, may_decode=False)
    )


def _keep_plain(data: bytes, spec: ImageSpec) -> ConvertedImage | None:
    return _keep_plain_jpeg(data, spec) or _keep_plain_png(data, spec)


def _keep_plain_jpeg(data: bytes, spec: ImageSpec) -> ConvertedImage | None:
    """Keeps a plain JPEG that needs no change, without Pillow, which would take most of the time."""
    header = parse_jpeg_header(data) if data.startswith(JPEG_START) and spec.image_size is None else None
    if header is None or not header.is_plain or spec.channels not in (None, header.components):
        return None
    check_pixels(header.height, header.width, spec.max_pixels)
    check_memory(len(data) + jpeg_coefficients(header), spec, height=header.height, width=header.width)
    if spec.allow_truncated or not check_whole_jpeg(data):
        return None
    orientation = header.orientation() if spec.orientation is Metadata.APPLY else 1
    return _kept(data, "jpeg", header.height, header.width, header.components, orientation)


def _keep_plain_png(data: bytes, spec: ImageSpec) -> ConvertedImage | None:
    """Keeps a small plain PNG that needs no change, without Pillow's parser."""
    png = parse_plain_png(data, spec) if spec.image_size is None else None
    if png is None or spec.channels not in (None, len(png.mode)) or png.load(spec) is None:
        return None
    return _kept(data, "png", png.height, png.width, len(png.mode), 1)


def _decode(file: OpenedImage, spec: ImageSpec) -> ConvertedImage:
    """Describes an opened file and decodes every pixel of it."""
    is_png, channels = file.format == "png", stored_channels(file.image)
    # Opens the file again: when Pillow reads the orientation of a PNG, it decodes the pixels and misses damage.
    loaded = open_image(file.data, spec).load(spec)
    # A PNG may have its orientation after the pixels. From a decoded TIFF, Pillow has removed the orientation.
    orientation = orientation_for(loaded.image if is_png else file.image, spec, may_decode=False)
    maximum = largest_value(loaded.image) if is_png and loaded.is_16_bit else None
    kept = _kept(file.data, file.format, *file.size, channels, orientation)
    return dataclasses.replace(kept, stored_maximum=maximum)


def spec_of_changed(spec: ImageSpec, name: str) -> ImageSpec:
    """Returns the settings for an image that should be kept, but whose pixels differ from its file.

    Args:
      name: format of its file.
    """
    encoding = _OWN_ENCODINGS.get(name, ImageEncoding.PNG)
    if IMPOSSIBLE_CHANNELS.get(encoding) == spec.channels:
        encoding = ImageEncoding.PNG
    return dataclasses.replace(spec, image_encoding=encoding)


def _kept(data: bytes, name: str, height: int, width: int, channels: int, orientation: int) -> ConvertedImage:
    return ConvertedImage(
        data,
        name,
        height,
        width,
        channels,
        COLORSPACES[channels],
        Geometry.unchanged(height, width),
        kept_orientation=orientation if orientation != 1 else None,
    )
