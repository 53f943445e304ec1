"""From the bytes of an image file to the image that is stored."""

from __future__ import annotations

import dataclasses

from PIL import Image

from beam_tfrecords.transforms.images.color import largest_value, stored_channels, to_channels, to_srgb
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.decode import check_whole_jpeg, load_pixels, open_image, stored_size
from beam_tfrecords.transforms.images.decode_errors import check_pixels
from beam_tfrecords.transforms.images.deep import convert_deep, is_deep
from beam_tfrecords.transforms.images.encode import COLORSPACES, encode
from beam_tfrecords.transforms.images.fast_jpeg import convert_plain_jpeg
from beam_tfrecords.transforms.images.fast_resize import fast_resize
from beam_tfrecords.transforms.images.geometry import Geometry, plan_geometry
from beam_tfrecords.transforms.images.image_spec import (
    IMPOSSIBLE_CHANNELS,
    Check,
    Codec,
    ImageEncoding,
    ImageSpec,
    Metadata,
    Resample,
)
from beam_tfrecords.transforms.images.jpeg_header import JPEG_START, parse_jpeg_header
from beam_tfrecords.transforms.images.memory import check_memory, converting_memory, jpeg_coefficients
from beam_tfrecords.transforms.images.orient import orient, orientation_of
from beam_tfrecords.transforms.images.plain_png import parse_plain_png
from beam_tfrecords.transforms.images.quality import Quality
from beam_tfrecords.transforms.images.resize import FILTERS, resize
from beam_tfrecords.transforms.images.shrink import shrink_large, strip_factor
from beam_tfrecords.transforms.images.tensorflow_formats import unreadable_by_tensorflow

_OWN_ENCODINGS = {"jpeg": ImageEncoding.JPEG, "png": ImageEncoding.PNG, "webp": ImageEncoding.WEBP}


def convert_image(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Decodes, turns, resizes and encodes one image; pure.

    Raises:
      SampleError: the bytes are no image, or one that cannot be converted.
      OSError: a service fault.
      MemoryError: memory ran out.
    """
    if spec.image_encoding is ImageEncoding.KEEP:
        return _keep_plain_jpeg(data, spec) or _keep_plain_png(data, spec) or _keep(data, spec)
    if spec.bit_depth == 16:
        return convert_deep(data, spec)
    if spec.codec is Codec.FAST and data.startswith(JPEG_START):
        converted = convert_plain_jpeg(data, spec)
        if converted is not None:
            return converted
    name, image = _load(data, spec)
    pixels, geometry = _convert_pixels(image, spec, file_size=len(data))
    return encode(
        pixels,
        spec.image_encoding,
        jpeg_quality=spec.jpeg_quality,
        geometry=geometry,
        stored_maximum=largest_value(pixels) if is_deep(data, name, image) else None,
        quality=Quality.of_image(pixels),
    )


def _load(data: bytes, spec: ImageSpec) -> tuple[str, Image.Image]:
    """The name of the format of a file, and its pixels."""
    png = parse_plain_png(data, spec)
    image = png.load(spec) if png else None
    if image is not None:
        return "png", image
    name, opened = open_image(data, spec)
    return name, load_pixels(data, name, opened, spec)


def _keep_plain_jpeg(data: bytes, spec: ImageSpec) -> ConvertedImage | None:
    """Keeps a plain JPEG that needs no change; without Pillow, which takes longer than everything else here."""
    header = parse_jpeg_header(data) if data.startswith(JPEG_START) and spec.image_size is None else None
    if header is None or not header.is_plain or spec.channels not in (None, header.components):
        return None
    check_pixels(header.height, header.width, spec.max_pixels)
    if spec.check is Check.DECODE:
        needed = len(data) + jpeg_coefficients(header)
        check_memory(needed, spec.max_image_memory, height=header.height, width=header.width)
        if spec.allow_truncated or not check_whole_jpeg(data):
            return None
    orientation = header.orientation() if spec.orientation is Metadata.APPLY else 1
    return _kept(data, "jpeg", header.height, header.width, header.components, orientation=orientation)


def _keep_plain_png(data: bytes, spec: ImageSpec) -> ConvertedImage | None:
    """Keeps a small plain PNG that needs no change, without Pillow's parser."""
    png = parse_plain_png(data, spec) if spec.image_size is None else None
    if png is None or spec.channels not in (None, png.channels):
        return None
    if spec.check is Check.DECODE and not png.is_whole(spec):
        return None
    return _kept(data, "png", png.height, png.width, png.channels, orientation=1)


def _keep(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Keeps the source's bytes if TensorFlow reads them and the request needs no change.

    A changed image is encoded in its own format if that is JPEG or PNG (or WebP with `keep_any_format`), anything
    else as PNG. Sizes are about the upright image, so with `image_size` an EXIF orientation is applied; without, it
    stays in the file, and height and width are those of the file's pixels.
    """
    name, image = open_image(data, spec)
    height, width = stored_size(image)
    channels = stored_channels(image)
    unreadable = not spec.keep_any_format and unreadable_by_tensorflow(data) is not None
    changes = spec.channels not in (None, channels)
    if spec.image_size is not None and not changes:
        changes = not plan_geometry(height, width, orientation=_orientation(image, spec), spec=spec).keeps_pixels
    shown: Image.Image = image
    maximum = None
    if not changes and not unreadable and spec.check is Check.DECODE:
        # Opened again: to read the orientation of a PNG, Pillow decodes its pixels, and damage goes unnoticed.
        loaded = load_pixels(data, *open_image(data, spec), spec)
        if name == "png":
            # It may have the orientation behind the pixels; of a decoded TIFF, Pillow has removed it.
            shown = loaded
            maximum = largest_value(loaded) if is_deep(data, name, loaded) else None
        elif name == "gif":
            unreadable = not spec.keep_any_format and unreadable_by_tensorflow(data, loaded) is not None
    if not changes and not unreadable:
        orientation = orientation_of(shown, may_decode=False) if spec.orientation is Metadata.APPLY else 1
        kept = _kept(data, name, height, width, channels, orientation=orientation)
        return dataclasses.replace(kept, stored_maximum=maximum)

    encoding = _OWN_ENCODINGS.get(name, ImageEncoding.PNG) if changes else ImageEncoding.PNG
    if IMPOSSIBLE_CHANNELS.get(encoding) == spec.channels or (unreadable and encoding is ImageEncoding.WEBP):
        encoding = ImageEncoding.PNG
    changed = dataclasses.replace(spec, image_encoding=encoding, check=Check.DECODE, keep_any_format=False)
    converted = convert_image(data, changed)
    replaced = unreadable and converted.format != name
    return dataclasses.replace(converted, replaced_format=name if replaced else None)


def _kept(data: bytes, name: str, height: int, width: int, channels: int, *, orientation: int) -> ConvertedImage:
    return ConvertedImage(
        data,
        name,
        height,
        width,
        channels,
        COLORSPACES[channels],
        kept_orientation=orientation if orientation != 1 else None,
        geometry=Geometry.unchanged(height, width),
    )


def _orientation(image: Image.Image, spec: ImageSpec) -> int:
    return orientation_of(image) if spec.orientation is Metadata.APPLY else 1


def _convert_pixels(image: Image.Image, spec: ImageSpec, *, file_size: int) -> tuple[Image.Image, Geometry]:
    """A decoded image upright and in sRGB, with the channels and the size of the request; and how it got there."""
    channels = spec.channels or stored_channels(image)
    if spec.image_encoding is ImageEncoding.JPEG:
        channels = min(channels, 3)

    def convert(part: Image.Image) -> Image.Image:
        return to_channels(to_srgb(part, use_profile=spec.color_profile is Metadata.APPLY), channels)

    # Pillow has already turned a TIFF by its own tag.
    orientation = _orientation(image, spec)
    geometry = plan_geometry(image.height, image.width, orientation=orientation, spec=spec)
    filtered = spec.resample not in (Resample.NEAREST, Resample.BOX)
    size = geometry.resized_unturned[::-1]
    factor = strip_factor(image, size) if spec.codec is Codec.FAST and filtered else 0
    needed = file_size + converting_memory(image, spec, geometry, in_strips=factor > 0)
    check_memory(needed, spec.max_image_memory, height=image.height, width=image.width)
    if factor:
        small = shrink_large(image, factor=factor, convert=convert, size=size, resample=FILTERS[spec.resample])
        return resize(orient(small, orientation), geometry, spec.resample), geometry
    image = orient(convert(image), orientation)
    resized = geometry.resized_height, geometry.resized_width
    if spec.codec is Codec.FAST and image.mode != "RGBA" and image.size != resized[::-1]:
        image = fast_resize(image, *resized, spec.resample)
    return resize(image, geometry, spec.resample), geometry
