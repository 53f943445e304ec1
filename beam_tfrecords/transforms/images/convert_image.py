"""Converts the bytes of an image file to the image that is stored, or to pixels for users' functions."""

from __future__ import annotations

import dataclasses

import numpy as np

from beam_tfrecords.transforms.images import formats
from beam_tfrecords.transforms.images.convert_array import convert_array
from beam_tfrecords.transforms.images.convert_pixels import Upright, decode_upright, place_pixels
from beam_tfrecords.transforms.images.converted_image import ConvertedImage, encode
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.images.keep import is_of_kept_kind, keep_file


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
