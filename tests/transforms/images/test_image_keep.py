"""encoding=keep stores the source's own bytes unless the request asks for a change."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from tests.image_checks import PHOTOS, detailed, encoded
from transforms.errors import FailureReason, SampleError
from transforms.images.convert import convert_image
from transforms.images.spec import Check, ImageEncoding, ImageSpec, ResizeMode

KEEP = ImageSpec(encoding=ImageEncoding.KEEP, channels=None)
HEADER = ImageSpec(encoding=ImageEncoding.KEEP, channels=None, check=Check.HEADER)


def turned(orientation: int, file_format: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(detailed(30, 50), file_format, exif=exif)


@pytest.mark.parametrize("spec", [KEEP, HEADER], ids=["decode", "header"])
def test_the_bytes_are_the_sources(spec: ImageSpec) -> None:
    data = PHOTOS[0].read_bytes()
    assert convert_image(data, spec).data is data


@pytest.mark.parametrize("file_format", ["JPEG", "TIFF", "PNG", "WEBP"])
@pytest.mark.parametrize("spec", [KEEP, HEADER], ids=["decode", "header"])
def test_height_and_width_are_those_of_the_stored_picture(file_format: str, spec: ImageSpec) -> None:
    converted = convert_image(turned(6, file_format), spec)
    assert (converted.height, converted.width) == (30, 50)
    assert converted.format == file_format.lower()


def test_the_header_check_reads_no_pixels() -> None:
    data = PHOTOS[0].read_bytes()
    cut = data[: len(data) // 2]
    assert convert_image(cut, HEADER).data is cut
    with pytest.raises(SampleError) as refused:
        convert_image(cut, KEEP)
    assert refused.value.reason is FailureReason.TRUNCATED


def test_the_decoding_check_finds_a_hole() -> None:
    data = PHOTOS[0].read_bytes()
    with pytest.raises(SampleError) as refused:
        convert_image(data[: len(data) // 2] + data[len(data) // 2 + 5000 :], KEEP)
    assert refused.value.reason is FailureReason.CORRUPT


def test_a_picture_that_has_the_size_asked_for_is_kept() -> None:
    data = encoded(detailed(30, 50), "PNG")
    spec = ImageSpec(encoding=ImageEncoding.KEEP, size=(30, 50), resize_mode=ResizeMode.EXACT)
    assert convert_image(data, spec).data is data


def test_small_pictures_are_kept_without_upscaling() -> None:
    data = encoded(detailed(30, 50), "PNG")
    spec = ImageSpec(encoding=ImageEncoding.KEEP, size=(90, 90), upscale=False)
    assert convert_image(data, spec).data is data


@pytest.mark.parametrize(
    ("source", "stored"),
    [("JPEG", "jpeg"), ("PNG", "png"), ("WEBP", "webp"), ("BMP", "png"), ("TIFF", "png"), ("GIF", "png")],
)
def test_a_change_of_size_is_stored_in_the_sources_format_or_as_png(source: str, stored: str) -> None:
    spec = ImageSpec(encoding=ImageEncoding.KEEP, channels=None, size=(20, 20))
    converted = convert_image(encoded(detailed(30, 50), source), spec)
    assert (converted.format, converted.height, converted.width) == (stored, 20, 33)
    with Image.open(io.BytesIO(converted.data)) as image:
        assert (image.format.lower(), image.size) == (stored, (33, 20))


def test_with_a_size_the_orientation_is_applied() -> None:
    spec = ImageSpec(encoding=ImageEncoding.KEEP, channels=None, size=(50, 30), resize_mode=ResizeMode.EXACT)
    converted = convert_image(turned(6), spec)
    assert (converted.height, converted.width) == (50, 30)
    assert converted.data != turned(6)


@pytest.mark.parametrize(
    ("mode", "file_format", "channels", "stored"),
    [("L", "JPEG", 3, "jpeg"), ("RGB", "JPEG", 4, "png"), ("RGB", "WEBP", 1, "png"), ("RGBA", "PNG", 3, "png")],
)
def test_a_change_of_channels_is_made_where_the_picture_needs_it(
    mode: str, file_format: str, channels: int, stored: str
) -> None:
    data = encoded(detailed(30, 50).convert(mode), file_format)
    converted = convert_image(data, ImageSpec(encoding=ImageEncoding.KEEP, channels=channels))
    assert (converted.format, converted.channels) == (stored, channels)


def test_a_truncated_file_is_kept_if_it_may_be() -> None:
    data = PHOTOS[0].read_bytes()[:-4000]
    spec = ImageSpec(encoding=ImageEncoding.KEEP, channels=None, allow_truncated=True)
    assert convert_image(data, spec).data is data
