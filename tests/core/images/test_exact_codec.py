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
from tests.image_checks import PHOTO_IDS, PHOTOS, encoded, pixels, upright, with_profile
from tests.image_writers import P3_COLORANTS, icc_profile

RAW = ImageSpec(image_encoding=ImageEncoding.RAW, codec=Codec.EXACT)
RAW_32 = dataclasses.replace(RAW, image_size=(32, 32), resize_mode=ResizeMode.EXACT)


@each("photo", PHOTOS, ids=PHOTO_IDS)
def test_raw_32x32_equals_pillows_default_resize(photo: Path) -> None:
    converted = convert_image(photo.read_bytes(), RAW_32)
    assert converted.data == upright(photo).resize((32, 32)).tobytes()


def test_a_plain_photo_equals_open_resize_tobytes() -> None:
    photo = next(photo for photo in PHOTOS if photo.stem == "cat_01")
    with Image.open(photo) as image:
        assert convert_image(photo.read_bytes(), RAW_32).data == image.resize((32, 32)).tobytes()


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


@each(
    "encoding, file_format, options",
    [(ImageEncoding.PNG, "PNG", {}), (ImageEncoding.WEBP, "WEBP", {"quality": 80})],
)
def test_png_and_webp_equal_what_pillow_saves(encoding: ImageEncoding, file_format: str, options: dict) -> None:
    size = dataclasses.replace(RAW, image_size=(50, 70), resize_mode=ResizeMode.EXACT)
    spec = dataclasses.replace(size, image_encoding=encoding, jpeg_quality=80)
    expected = encoded(upright(PHOTOS[0]).resize((70, 50)), file_format, **options)
    assert convert_image(PHOTOS[0].read_bytes(), spec).data == expected


@each("size", [(40, 61), (61, 40), (50, 30), (100, 60), (9, 90), (200, 33)])
def test_pad_equals_imageops_contain_centred_on_black(size: tuple[int, int]) -> None:
    image = Image.fromarray(np.random.default_rng(5).integers(1, 256, (*size, 3), np.uint8))
    spec = dataclasses.replace(RAW, image_size=(50, 30), resize_mode=ResizeMode.PAD)
    inside = ImageOps.contain(image, (30, 50))
    top, left = (50 - inside.height) // 2, (30 - inside.width) // 2
    expected = np.zeros((50, 30, 3), np.uint8)
    expected[top : top + inside.height, left : left + inside.width] = inside
    np.testing.assert_array_equal(pixels(convert_image(encoded(image, "PNG"), spec)), expected)


def test_crop_is_the_middle_of_the_resized_image() -> None:
    image = upright(PHOTOS[1])
    spec = dataclasses.replace(RAW, image_size=(64, 41), resize_mode=ResizeMode.CROP)
    scale = max(64 / image.height, 41 / image.width)
    resized = image.resize((round(image.width * scale), round(image.height * scale)))
    top, left = (resized.height - 64) // 2, (resized.width - 41) // 2
    expected = resized.crop((left, top, left + 41, top + 64))
    assert convert_image(PHOTOS[1].read_bytes(), spec).data == expected.tobytes()


def test_raw_grey_pixels_are_stored_row_by_row() -> None:
    grey = Image.fromarray(np.arange(112 * 92, dtype=np.uint32).astype(np.uint8).reshape(112, 92))
    converted = convert_image(encoded(grey, "PNG"), dataclasses.replace(RAW, channels=1))
    assert (converted.height, converted.width, converted.channels) == (112, 92, 1)
    assert converted.data == grey.tobytes()


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


@each("photo", PHOTOS, ids=PHOTO_IDS)
def test_ignoring_profile_and_orientation_equals_the_plainest_pillow_script(photo: Path) -> None:
    data = photo.read_bytes()
    with_p3 = with_profile(data, icc_profile(P3_COLORANTS, 2.2))
    assert convert_image(data, AS_IT_IS).data == plain_script(data, (90, 111))
    assert convert_image(with_p3, AS_IT_IS).data == plain_script(with_p3, (90, 111))


@each("mode, file_format", [("CMYK", "JPEG"), ("RGB", "PNG"), ("RGB", "WEBP"), ("P", "PNG")])
@each("orientation", [1, 6])
def test_other_formats_equal_the_plainest_pillow_script_too(mode: str, file_format: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = upright(PHOTOS[0]).convert(mode)
    data = encoded(image, file_format, exif=exif, icc_profile=icc_profile(P3_COLORANTS, 2.2))
    assert convert_image(data, AS_IT_IS).data == plain_script(data, (90, 111))


@each("codec", Codec)
@each("encoding", [encoding for encoding in ImageEncoding if encoding != "keep"])
def test_the_same_input_gives_the_same_bytes(codec: Codec, encoding: ImageEncoding) -> None:
    data, spec = PHOTOS[2].read_bytes(), ImageSpec(image_size=(99, 99), codec=codec, image_encoding=encoding)
    first = convert_image(data, spec)
    convert_image(PHOTOS[3].read_bytes(), spec)
    assert convert_image(data, spec) == first
