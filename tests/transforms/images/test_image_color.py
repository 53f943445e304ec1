"""Colours, depths and transparency end as a person sees them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from PIL import Image, ImageCms

from tests.image_checks import PHOTOS, detailed, encoded, pixels
from tests.image_writers import P3_COLORANTS, icc_profile, png_file
from transforms.images.color import to_srgb_transform
from transforms.images.convert import convert_image
from transforms.images.spec import Codec, ImageEncoding, ImageSpec, Resample, ResizeMode


def stored(data: bytes, *, channels: int | None = 3) -> np.ndarray:
    """[H, W, C] uint8 that is made of a file."""
    spec = ImageSpec(encoding=ImageEncoding.RAW, channels=channels, codec=Codec.EXACT)
    return pixels(convert_image(data, spec))


def test_all_65536_levels_of_grey_are_rounded_to_the_nearest_of_256() -> None:
    levels = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    expected = np.round(levels / 257).astype(np.uint8)
    np.testing.assert_array_equal(stored(encoded(Image.fromarray(levels), "PNG"), channels=1)[..., 0], expected)


def test_a_16_bit_picture_is_not_clipped() -> None:
    levels = np.array([[0, 256, 32768, 65535]], np.uint16)
    assert stored(png_file(levels), channels=1).ravel().tolist() == [0, 1, 128, 255]


def test_transparency_is_laid_over_white() -> None:
    image = Image.new("RGBA", (3, 1))
    image.putdata([(255, 0, 0, 255), (255, 0, 0, 0), (0, 0, 0, 128)])
    assert stored(encoded(image, "PNG")).tolist() == [[[255, 0, 0], [255, 255, 255], [127, 127, 127]]]


def test_grey_asked_of_a_transparent_picture_is_laid_over_white_too() -> None:
    image = Image.new("LA", (2, 1))
    image.putdata([(10, 255), (10, 0)])
    assert stored(encoded(image, "PNG"), channels=1).ravel().tolist() == [10, 255]


def test_four_channels_of_an_opaque_picture_are_opaque() -> None:
    assert stored(encoded(Image.new("RGB", (1, 1), "red"), "PNG"), channels=4).tolist() == [[[255, 0, 0, 255]]]


@pytest.mark.parametrize(
    ("mode", "channels"),
    [("1", 1), ("L", 1), ("I;16", 1), ("P", 3), ("RGB", 3), ("LA", 4), ("RGBA", 4)],
)
def test_kept_channels_are_those_of_the_source(mode: str, channels: int) -> None:
    converted = convert_image(
        encoded(Image.new(mode, (4, 4)), "PNG"), ImageSpec(channels=None, encoding=ImageEncoding.PNG)
    )
    assert converted.channels == channels
    assert converted.colorspace == {1: "Grayscale", 3: "RGB", 4: "RGBA"}[channels]


def test_a_jpeg_of_a_transparent_picture_has_three_channels() -> None:
    converted = convert_image(encoded(Image.new("RGBA", (4, 4)), "PNG"), ImageSpec(channels=None))
    assert converted.channels == 3


def test_a_webp_of_a_grey_picture_has_three_channels() -> None:
    spec = ImageSpec(channels=None, encoding=ImageEncoding.WEBP)
    converted = convert_image(encoded(Image.new("L", (4, 4)), "PNG"), spec)
    assert (converted.channels, pixels(converted).shape) == (3, (4, 4, 3))


@pytest.mark.parametrize("mode", ["P", "1"])
def test_palette_and_1_bit_pictures_are_filtered_when_resized(mode: str) -> None:
    checks = Image.fromarray((np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)).convert(mode)
    spec = ImageSpec(size=(16, 16), resize_mode=ResizeMode.EXACT, encoding=ImageEncoding.RAW, codec=Codec.EXACT)
    assert 100 < pixels(convert_image(encoded(checks, "PNG"), spec)).mean() < 155
    assert np.ptp(pixels(convert_image(encoded(checks, "PNG"), spec))) < 60


def test_a_plain_picture_loses_no_level() -> None:
    picture = detailed(50, 40)
    np.testing.assert_array_equal(stored(encoded(picture, "PNG")), np.asarray(picture))


def test_srgb_profiles_change_nothing() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert to_srgb_transform(profile, "RGB") is None
    picture = detailed(20, 20)
    np.testing.assert_array_equal(stored(encoded(picture, "PNG", icc_profile=profile)), np.asarray(picture))


def test_a_profile_is_not_stored_beside_the_converted_pixels() -> None:
    data = encoded(detailed(20, 20), "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2))
    for codec in Codec:
        converted = convert_image(data, ImageSpec(encoding=ImageEncoding.PNG, codec=codec))
        assert b"iCCP" not in converted.data


def test_a_wide_red_becomes_the_reddest_that_srgb_has() -> None:
    red = Image.new("RGB", (2, 2), (255, 0, 0))
    assert stored(encoded(red, "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2)))[0, 0].tolist() == [255, 0, 0]
    green = Image.new("RGB", (2, 2), (0, 200, 0))
    seen = stored(encoded(green, "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2)))[0, 0]
    assert seen[1] > 203
    assert seen[0] == 0


def test_a_16_bit_colour_key_is_transparent() -> None:
    levels = np.array([[1000, 2000]], np.uint16)
    data = png_file(levels, chunks=[(b"tRNS", struct.pack(">H", 2000))])
    assert stored(data, channels=4)[0, :, 3].tolist() == [255, 0]


@pytest.mark.parametrize("resample", Resample)
def test_a_transparent_edge_takes_no_colour_from_invisible_pixels(resample: Resample) -> None:
    image = Image.new("RGBA", (64, 64), (0, 255, 0, 0))
    image.paste((255, 0, 0, 255), (0, 0, 33, 64))
    spec = ImageSpec(
        size=(20, 20), resize_mode=ResizeMode.EXACT, encoding=ImageEncoding.RAW, channels=4, resample=resample
    )
    result = pixels(convert_image(encoded(image, "PNG"), spec))
    visible = result[..., 3] > 8
    assert result[visible][:, 1].max() < 30


def test_photos_keep_no_exif() -> None:
    photo = next(photo for photo in PHOTOS if photo.stem == "flower_06")
    assert b"Exif" in photo.read_bytes()
    for codec in Codec:
        assert b"Exif" not in convert_image(photo.read_bytes(), ImageSpec(codec=codec)).data
