"""image_encoding=keep stores the source's own bytes unless the request asks for a change."""

from __future__ import annotations

import dataclasses
import io
import struct
import zlib
from collections.abc import Callable

import pytest
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec, Metadata, ResizeMode
from beam_tfrecords.transforms.images.keep import check_file, read_header
from tests.each import each
from tests.image_checks import PHOTOS, detailed, encoded

Describe = Callable[[bytes, ImageSpec], ConvertedImage]
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)


def turned(orientation: int, file_format: str = "JPEG") -> bytes:
    """A file of 30 x 50 pixels (height x width) with an EXIF orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(detailed(30, 50), file_format, exif=exif)


def test_the_source_bytes_are_stored() -> None:
    data = PHOTOS[0].read_bytes()
    assert convert_image(data, KEEP).data is data


@each("file_format", ["JPEG", "TIFF", "PNG", "WEBP"])
@each("describe", [check_file, read_header])
def test_height_and_width_are_those_of_the_pixels_in_the_file(file_format: str, describe: Describe) -> None:
    converted = describe(turned(6, file_format), KEEP)
    assert (converted.height, converted.width) == (30, 50)
    assert converted.format == file_format.lower()


@each("file_format", ["JPEG", "TIFF", "PNG", "WEBP"])
@each("describe", [check_file, read_header])
def test_the_orientation_that_a_kept_file_still_has_is_told(file_format: str, describe: Describe) -> None:
    assert describe(turned(6, file_format), KEEP).kept_orientation == 6
    assert describe(turned(1, file_format), KEEP).kept_orientation is None
    ignoring = dataclasses.replace(KEEP, orientation=Metadata.IGNORE)
    assert describe(turned(6, file_format), ignoring).kept_orientation is None


def test_an_image_that_is_stored_upright_has_no_orientation_left() -> None:
    assert convert_image(turned(6), dataclasses.replace(KEEP, image_size=(20, 20))).kept_orientation is None


def test_the_orientation_behind_the_pixels_of_a_png_is_told() -> None:
    data = turned(6, "PNG")
    start = data.index(b"eXIf") - 4
    end = start + 12 + int.from_bytes(data[start : start + 4], "big")
    late = data[:start] + data[end:-12] + data[start:end] + data[-12:]
    assert convert_image(late, KEEP).kept_orientation == 6


def test_reading_a_header_reads_no_pixels() -> None:
    data = PHOTOS[0].read_bytes()
    cut = data[: len(data) // 2]
    assert read_header(cut, KEEP).data is cut
    png = turned(6, "PNG")
    assert read_header(png[: png.index(b"IDAT") + 9], KEEP).kept_orientation == 6
    with pytest.raises(SampleError) as rejected:
        convert_image(cut, KEEP)
    assert rejected.value.reason is FailureReason.TRUNCATED


def test_a_file_with_a_hole_is_rejected() -> None:
    data = PHOTOS[0].read_bytes()
    with pytest.raises(SampleError) as rejected:
        convert_image(data[: len(data) // 2] + data[len(data) // 2 + 5000 :], KEEP)
    assert rejected.value.reason is FailureReason.CORRUPT


def test_an_image_that_has_the_size_already_is_kept() -> None:
    data = encoded(detailed(30, 50), "PNG")
    spec = ImageSpec(image_encoding=ImageEncoding.KEEP, image_size=(30, 50), resize_mode=ResizeMode.EXACT)
    assert convert_image(data, spec).data is data


def test_a_small_image_is_kept_without_upscaling() -> None:
    data = encoded(detailed(30, 50), "PNG")
    spec = ImageSpec(image_encoding=ImageEncoding.KEEP, image_size=(90, 90), upscale=False)
    assert convert_image(data, spec).data is data


@each(
    "source, stored",
    [("JPEG", "jpeg"), ("PNG", "png"), ("WEBP", "png"), ("BMP", "png"), ("TIFF", "png"), ("GIF", "png")],
)
def test_a_resized_image_is_stored_in_its_own_format_or_as_png(source: str, stored: str) -> None:
    spec = dataclasses.replace(KEEP, image_size=(20, 20))
    converted = convert_image(encoded(detailed(30, 50), source), spec)
    assert (converted.format, converted.height, converted.width) == (stored, 20, 33)
    with Image.open(io.BytesIO(converted.data)) as image:
        assert (image.format.lower(), image.size) == (stored, (33, 20))


def test_with_a_size_the_orientation_is_applied() -> None:
    spec = ImageSpec(
        image_encoding=ImageEncoding.KEEP, channels=None, image_size=(50, 30), resize_mode=ResizeMode.EXACT
    )
    converted = convert_image(turned(6), spec)
    assert (converted.height, converted.width) == (50, 30)
    assert converted.data != turned(6)


def test_with_a_size_an_ignored_orientation_stays_in_the_file() -> None:
    data = turned(6)
    spec = dataclasses.replace(KEEP, image_size=(30, 50), orientation=Metadata.IGNORE)
    assert convert_image(data, spec).data is data


@each("file_format", ["TIFF", "WEBP"])
def test_a_format_that_tensorflow_cannot_read_is_stored_upright_as_png(file_format: str) -> None:
    converted = convert_image(turned(6, file_format), KEEP)
    assert (converted.format, converted.replaced_format) == ("png", file_format.lower())
    assert (converted.height, converted.width) == (50, 30)


@each(
    "source, stored, replaced",
    [("WEBP", "png", "webp"), ("TIFF", "png", "tiff"), ("BMP", "png", "bmp"), ("JPEG", "jpeg", None)],
)
def test_a_resized_image_counts_as_replaced_if_its_format_is_unreadable(
    source: str, stored: str, replaced: str | None
) -> None:
    converted = convert_image(encoded(detailed(30, 50), source), dataclasses.replace(KEEP, image_size=(20, 20)))
    assert (converted.format, converted.replaced_format) == (stored, replaced)


def test_a_resized_cmyk_jpeg_is_stored_as_rgb_jpeg() -> None:
    data = encoded(detailed(30, 50).convert("CMYK"), "JPEG")
    converted = convert_image(data, dataclasses.replace(KEEP, image_size=(20, 20)))
    assert (converted.format, converted.channels, converted.replaced_format) == ("jpeg", 3, None)


def test_a_truncated_file_of_an_unreadable_format_is_rejected() -> None:
    data = encoded(detailed(30, 50), "TIFF")
    with pytest.raises(SampleError) as rejected:
        convert_image(data[: len(data) // 2], KEEP)
    assert rejected.value.reason is FailureReason.TRUNCATED


@each(
    "mode, file_format, channels, stored",
    [("L", "JPEG", 3, "jpeg"), ("RGB", "JPEG", 4, "png"), ("RGB", "WEBP", 1, "png"), ("RGBA", "PNG", 3, "png")],
)
def test_an_image_with_other_channels_than_asked_is_encoded_again(
    mode: str, file_format: str, channels: int, stored: str
) -> None:
    data = encoded(detailed(30, 50).convert(mode), file_format)
    converted = convert_image(data, dataclasses.replace(KEEP, channels=channels))
    assert (converted.format, converted.channels) == (stored, channels)


def test_a_truncated_file_is_kept_if_allowed() -> None:
    data = PHOTOS[0].read_bytes()[:-4000]
    spec = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None, allow_truncated=True)
    assert convert_image(data, spec).data is data


def test_a_kept_png_of_the_size_asked_for_is_decoded_too():
    data = encoded(detailed(8, 8), "PNG")
    start = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[start - 8 : start - 4])
    damaged = b"IDAT" + bytes(length)
    data = data[: start - 4] + damaged + struct.pack(">I", zlib.crc32(damaged)) + data[start + length + 4 :]
    spec = dataclasses.replace(KEEP, image_size=(8, 8))
    with pytest.raises(SampleError, match="corrupt"):
        convert_image(data, spec)
