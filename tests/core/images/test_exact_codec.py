"""codec=exact writes the bytes that a Pillow script writes."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, Resample, ResizeMode
from beam_tfrecords.transforms.images.resize import FILTERS
from tests.each import each
from tests.image_checks import PHOTO_IDS, PHOTOS, encoded, pixels, upright
from tests.image_writers import P3_COLORANTS, icc_profile

RAW = ImageSpec(image_encoding=ImageEncoding.RAW, codec=Codec.EXACT)


@each("photo", PHOTOS[::4], ids=PHOTO_IDS[::4])
@each("resample", Resample)
def test_a_jpeg_equals_what_pillow_saves(photo: Path, resample: Resample) -> None:
    spec = ImageSpec(image_size=(120, 120), codec=Codec.EXACT, resample=resample, jpeg_quality=90)
    image = upright(photo)
    scale = 120 / min(image.size)
    size = round(image.width * scale), round(image.height * scale)
    expected = encoded(image.resize(size, FILTERS[resample]), "JPEG", quality=90)
    converted = convert_image(photo.read_bytes(), spec)
    assert (converted.height, converted.width) == size[::-1]
    assert converted.data == expected


@each("size", [(40, 61), (61, 40), (50, 30), (100, 60), (9, 90), (200, 33)])
def test_pad_equals_imageops_contain_centred_on_black(size: tuple[int, int]) -> None:
    image = Image.fromarray(np.random.default_rng(5).integers(1, 256, (*size, 3), np.uint8))
    spec = dataclasses.replace(RAW, image_size=(50, 30), resize_mode=ResizeMode.PAD)
    inside = ImageOps.contain(image, (30, 50))
    top, left = (50 - inside.height) // 2, (30 - inside.width) // 2
    expected = np.zeros((50, 30, 3), np.uint8)
    expected[top : top + inside.height, left : left + inside.width] = inside
    np.testing.assert_array_equal(pixels(convert_image(encoded(image, "PNG"), spec)), expected)


def test_a_comment_that_is_too_long_for_a_jpeg_is_left_out() -> None:
    data = encoded(Image.new("L", (16, 16)), "GIF", comment=b"by hand" * 10_000)
    assert b"by hand" not in convert_image(data, ImageSpec()).data


def test_a_comment_is_passed_on_as_in_a_pillow_script() -> None:
    image = Image.new("RGB", (16, 16), "red")
    data = encoded(image, "JPEG", comment=b"by hand")
    converted = convert_image(data, ImageSpec(codec=Codec.EXACT))
    assert b"by hand" in converted.data


def plain_script(data: bytes, size: tuple[int, int]) -> bytes:
    """What a script without any care for profiles and orientation makes of a file."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGB").resize(size, Image.Resampling.BICUBIC).save(file, "JPEG", quality=95)
    return file.getvalue()


AS_IT_IS = ImageSpec(
    image_size=(111, 90),
    resize_mode=ResizeMode.EXACT,
    codec=Codec.EXACT,
    color_profile=Metadata.IGNORE,
    orientation=Metadata.IGNORE,
)


@each("mode, file_format", [("CMYK", "JPEG"), ("RGB", "PNG"), ("RGB", "WEBP"), ("P", "PNG")])
@each("orientation", [1, 6])
def test_other_formats_equal_the_plainest_pillow_script_too(mode: str, file_format: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = upright(PHOTOS[0]).convert(mode)
    data = encoded(image, file_format, exif=exif, icc_profile=icc_profile(P3_COLORANTS, 2.2))
    assert convert_image(data, AS_IT_IS).data == plain_script(data, (90, 111))
