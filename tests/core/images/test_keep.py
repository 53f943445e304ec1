"""image_encoding=keep stores the source's own bytes unless the request asks for a change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import check_file, convert_image, read_header
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec, Metadata
from tests.each import each
from tests.image_checks import PHOTOS, detailed, encoded

Describe = Callable[[bytes, ImageSpec], ConvertedImage]
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)


def turned(orientation: int, file_format: str = "JPEG") -> bytes:
    """A file of 30 x 50 pixels (height x width) with an EXIF orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(detailed(30, 50), file_format, exif=exif)


@each("file_format", ["JPEG", "TIFF", "PNG", "WEBP"])
@each("describe", [check_file, read_header])
def test_the_orientation_that_a_kept_file_still_has_is_told(file_format: str, describe: Describe) -> None:
    assert describe(turned(6, file_format), KEEP).kept_orientation == 6
    assert describe(turned(1, file_format), KEEP).kept_orientation is None
    ignoring = dataclasses.replace(KEEP, orientation=Metadata.IGNORE)
    assert describe(turned(6, file_format), ignoring).kept_orientation is None


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
