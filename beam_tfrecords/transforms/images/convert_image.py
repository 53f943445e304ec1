"""Converts the bytes of an image file to the image that is stored."""

from __future__ import annotations

import dataclasses

from PIL import Image

from beam_tfrecords.transforms.images.bit_depth import is_16_bit
from beam_tfrecords.transforms.images.color import largest_value, stored_channels
from beam_tfrecords.transforms.images.convert_pixels import convert_pixels
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.decode import load_pixels, open_image
from beam_tfrecords.transforms.images.decode_errors import raise_pillow_limit
from beam_tfrecords.transforms.images.encode import encode
from beam_tfrecords.transforms.images.fast_jpeg import convert_plain_jpeg
from beam_tfrecords.transforms.images.image_spec import (
    Codec,
    ImageEncoding,
    ImageSpec,
)
from beam_tfrecords.transforms.images.jpeg_header import JPEG_START
from beam_tfrecords.transforms.images.keep import keep_file
from beam_tfrecords.transforms.images.plain_png import parse_plain_png
from beam_tfrecords.transforms.images.quality import measure_image
from beam_tfrecords.transforms.images.sixteen_bit import convert_16_bit


def convert_image(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Decodes, turns, resizes and encodes one image. This function is pure.

    Raises:
      SampleError: the bytes are not an image, or the image cannot be converted.
      OSError: a service fault.
      MemoryError: memory ran out.
    """
    if spec.image_encoding is ImageEncoding.KEEP:
        return _keep(data, spec)
    if spec.bit_depth == 16:
        return convert_16_bit(data, spec)
    if spec.codec is Codec.FAST and data.startswith(JPEG_START):
        converted = convert_plain_jpeg(data, spec)
        if converted is not None:
            return converted
    name, image = _load(data, spec)
    channels = spec.channels or stored_channels(image)
    if spec.image_encoding is ImageEncoding.JPEG:
        channels = min(channels, 3)
    pixels, geometry = convert_pixels(image, spec, channels=channels, file_size=len(data))
    return encode(
        pixels,
        spec.image_encoding,
        jpeg_quality=spec.jpeg_quality,
        geometry=geometry,
        stored_maximum=largest_value(pixels) if is_16_bit(data, name, image) else None,
        quality=measure_image(pixels),
    )


def _keep(data: bytes, spec: ImageSpec) -> ConvertedImage:
    kept = keep_file(data, spec)
    if isinstance(kept, ConvertedImage):
        return kept
    converted = convert_image(data, kept.spec)
    is_replaced = kept.is_other_kind and converted.format != kept.format
    return dataclasses.replace(converted, replaced_format=kept.format if is_replaced else None)


def _load(data: bytes, spec: ImageSpec) -> tuple[str, Image.Image]:
    """Decodes a file; returns the name of its format and its pixels."""
    raise_pillow_limit(spec.max_pixels)
    png = parse_plain_png(data, spec)
    image = png.load(spec) if png else None
    if image is not None:
        return "png", image
    name, opened = open_image(data, spec)
    return name, load_pixels(data, name, opened, spec)
