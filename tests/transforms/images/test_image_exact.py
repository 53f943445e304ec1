"""codec=exact is byte for byte what a Pillow script makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.image_checks import PHOTO_IDS, PHOTOS, encoded, pixels, upright
from transforms.images.convert import convert_image
from transforms.images.resize import FILTERS
from transforms.images.spec import Codec, ImageEncoding, ImageSpec, Resample, ResizeMode

RAW_32 = ImageSpec(size=(32, 32), resize_mode=ResizeMode.EXACT, encoding=ImageEncoding.RAW, codec=Codec.EXACT)


@pytest.mark.parametrize("photo", PHOTOS, ids=PHOTO_IDS)
def test_raw_32x32_is_what_the_default_resize_of_pillow_makes(photo: Path) -> None:
    converted = convert_image(photo.read_bytes(), RAW_32)
    assert converted.data == upright(photo).resize((32, 32)).tobytes()


def test_a_plain_photo_needs_no_more_than_open_resize_tobytes() -> None:
    photo = next(photo for photo in PHOTOS if photo.stem == "cat_01")
    with Image.open(photo) as image:
        assert convert_image(photo.read_bytes(), RAW_32).data == image.resize((32, 32)).tobytes()


@pytest.mark.parametrize("photo", PHOTOS[::4], ids=PHOTO_IDS[::4])
@pytest.mark.parametrize("resample", Resample)
def test_a_jpeg_is_what_pillow_saves(photo: Path, resample: Resample) -> None:
    spec = ImageSpec(size=(120, 120), codec=Codec.EXACT, resample=resample, jpeg_quality=90)
    image = upright(photo)
    scale = 120 / min(image.size)
    size = round(image.width * scale), round(image.height * scale)
    expected = encoded(image.resize(size, FILTERS[resample]), "JPEG", quality=90)
    converted = convert_image(photo.read_bytes(), spec)
    assert (converted.height, converted.width) == size[::-1]
    assert converted.data == expected


@pytest.mark.parametrize(
    ("encoding", "file_format", "options"),
    [(ImageEncoding.PNG, "PNG", {}), (ImageEncoding.WEBP, "WEBP", {"quality": 80})],
)
def test_png_and_webp_are_what_pillow_saves(encoding: ImageEncoding, file_format: str, options: dict) -> None:
    spec = ImageSpec(size=(50, 70), resize_mode=ResizeMode.EXACT, codec=Codec.EXACT, encoding=encoding, jpeg_quality=80)
    expected = encoded(upright(PHOTOS[0]).resize((70, 50)), file_format, **options)
    assert convert_image(PHOTOS[0].read_bytes(), spec).data == expected


@pytest.mark.parametrize("size", [(40, 61), (61, 40), (50, 30), (100, 60), (9, 90), (200, 33)])
def test_pad_is_what_imageops_contain_makes_in_the_middle_of_black(size: tuple[int, int]) -> None:
    image = Image.fromarray(np.random.default_rng(5).integers(1, 256, (*size, 3), np.uint8))
    spec = ImageSpec(size=(50, 30), resize_mode=ResizeMode.PAD, codec=Codec.EXACT, encoding=ImageEncoding.RAW)
    inside = ImageOps.contain(image, (30, 50))
    top, left = (50 - inside.height) // 2, (30 - inside.width) // 2
    expected = np.zeros((50, 30, 3), np.uint8)
    expected[top : top + inside.height, left : left + inside.width] = inside
    np.testing.assert_array_equal(pixels(convert_image(encoded(image, "PNG"), spec)), expected)


def test_crop_is_the_middle_of_the_resized_picture() -> None:
    image = upright(PHOTOS[1])
    spec = ImageSpec(size=(64, 41), resize_mode=ResizeMode.CROP, codec=Codec.EXACT, encoding=ImageEncoding.RAW)
    scale = max(64 / image.height, 41 / image.width)
    resized = image.resize((round(image.width * scale), round(image.height * scale)))
    top, left = (resized.height - 64) // 2, (resized.width - 41) // 2
    expected = resized.crop((left, top, left + 41, top + 64))
    assert convert_image(PHOTOS[1].read_bytes(), spec).data == expected.tobytes()


def test_grey_pixels_have_height_before_width() -> None:
    grey = Image.fromarray(np.arange(112 * 92, dtype=np.uint32).astype(np.uint8).reshape(112, 92))
    spec = ImageSpec(channels=1, encoding=ImageEncoding.RAW, codec=Codec.EXACT)
    converted = convert_image(encoded(grey, "PNG"), spec)
    assert (converted.height, converted.width, converted.channels) == (112, 92, 1)
    assert converted.data == grey.tobytes()


def test_a_comment_of_the_source_stays_as_in_a_pillow_script() -> None:
    image = Image.new("RGB", (16, 16), "red")
    data = encoded(image, "JPEG", comment=b"by hand")
    converted = convert_image(data, ImageSpec(codec=Codec.EXACT))
    assert b"by hand" in converted.data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("encoding", [encoding for encoding in ImageEncoding if encoding != "keep"])
def test_the_same_input_gives_the_same_bytes(codec: Codec, encoding: ImageEncoding) -> None:
    data, spec = PHOTOS[2].read_bytes(), ImageSpec(size=(99, 99), codec=codec, encoding=encoding)
    first = convert_image(data, spec)
    convert_image(PHOTOS[3].read_bytes(), spec)
    assert convert_image(data, spec) == first
