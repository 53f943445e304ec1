"""Colors, depths and transparency are converted to what a viewer shows."""

from __future__ import annotations

import struct

import numpy as np
from PIL import Image, ImageCms

from beam_tfrecords.transforms.images.color import to_srgb_transform
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, Resample
from tests.each import each
from tests.image_checks import PHOTOS, detailed, encoded, pixels
from tests.image_writers import P3_COLORANTS, icc_profile, png_file


def stored(data: bytes, *, channels: int | None = 3, color_profile: Metadata = Metadata.APPLY) -> np.ndarray:
    """[H, W, C] uint8 pixels of a converted file."""
    spec = ImageSpec(
        image_encoding=ImageEncoding.RAW, channels=channels, codec=Codec.EXACT, color_profile=color_profile
    )
    return pixels(convert_image(data, spec))


def test_all_65536_levels_of_grey_are_rounded_to_the_nearest_of_256() -> None:
    levels = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    expected = np.round(levels / 257).astype(np.uint8)
    np.testing.assert_array_equal(stored(encoded(Image.fromarray(levels), "PNG"), channels=1)[..., 0], expected)


def test_a_16_bit_image_is_scaled_and_not_clipped() -> None:
    levels = np.array([[0, 256, 32768, 65535]], np.uint16)
    assert stored(png_file(levels), channels=1).ravel().tolist() == [0, 1, 128, 255]


def test_transparency_is_blended_with_white() -> None:
    image = Image.new("RGBA", (3, 1))
    image.putdata([(255, 0, 0, 255), (255, 0, 0, 0), (0, 0, 0, 128)])
    assert stored(encoded(image, "PNG")).tolist() == [[[255, 0, 0], [255, 255, 255], [127, 127, 127]]]


def test_transparency_is_blended_with_white_for_grey_output_too() -> None:
    image = Image.new("LA", (2, 1))
    image.putdata([(10, 255), (10, 0)])
    assert stored(encoded(image, "PNG"), channels=1).ravel().tolist() == [10, 255]


def test_an_opaque_image_gets_an_opaque_fourth_channel() -> None:
    assert stored(encoded(Image.new("RGB", (1, 1), "red"), "PNG"), channels=4).tolist() == [[[255, 0, 0, 255]]]


@each(
    "mode, channels",
    [("1", 1), ("L", 1), ("I;16", 1), ("P", 3), ("RGB", 3), ("LA", 4), ("RGBA", 4)],
)
def test_channels_keep_stores_the_channels_of_the_source(mode: str, channels: int) -> None:
    converted = convert_image(
        encoded(Image.new(mode, (4, 4)), "PNG"), ImageSpec(channels=None, image_encoding=ImageEncoding.PNG)
    )
    assert converted.channels == channels
    assert converted.colorspace == {1: "Grayscale", 3: "RGB", 4: "RGBA"}[channels]


def test_a_transparent_image_stored_as_jpeg_has_three_channels() -> None:
    converted = convert_image(encoded(Image.new("RGBA", (4, 4)), "PNG"), ImageSpec(channels=None))
    assert converted.channels == 3


def test_a_grey_image_stored_as_webp_has_three_channels() -> None:
    spec = ImageSpec(channels=None, image_encoding=ImageEncoding.WEBP)
    converted = convert_image(encoded(Image.new("L", (4, 4)), "PNG"), spec)
    assert (converted.channels, pixels(converted).shape) == (3, (4, 4, 3))


@each("mode", ["P", "1"])
def test_palette_and_1_bit_images_are_filtered_when_resized(mode: str) -> None:
    checks = Image.fromarray((np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)).convert(mode)
    spec = ImageSpec(image_size=(16, 16), image_encoding=ImageEncoding.RAW, codec=Codec.EXACT)
    resized = pixels(convert_image(encoded(checks, "PNG"), spec))
    assert 100 < resized.mean() < 155
    assert np.ptp(resized) < 60


def test_a_plain_image_keeps_every_level() -> None:
    image = detailed(50, 40)
    np.testing.assert_array_equal(stored(encoded(image, "PNG")), np.asarray(image))


def test_an_srgb_profile_changes_nothing() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert to_srgb_transform(profile, "RGB") is None
    image = detailed(20, 20)
    np.testing.assert_array_equal(stored(encoded(image, "PNG", icc_profile=profile)), np.asarray(image))


@each("color_profile", Metadata)
def test_a_profile_is_not_stored_beside_the_pixels(color_profile: Metadata) -> None:
    data = encoded(detailed(20, 20), "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2))
    for codec in Codec:
        spec = ImageSpec(image_encoding=ImageEncoding.PNG, codec=codec, color_profile=color_profile)
        assert b"iCCP" not in convert_image(data, spec).data


def test_colors_outside_srgb_are_clipped() -> None:
    red = Image.new("RGB", (2, 2), (255, 0, 0))
    assert stored(encoded(red, "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2)))[0, 0].tolist() == [255, 0, 0]
    green = Image.new("RGB", (2, 2), (0, 200, 0))
    seen = stored(encoded(green, "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2)))[0, 0]
    assert seen[1] > 203
    assert seen[0] == 0


def test_an_ignored_profile_leaves_the_numbers_as_they_are() -> None:
    image = detailed(20, 20)
    data = encoded(image, "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2))
    np.testing.assert_array_equal(stored(data, color_profile=Metadata.IGNORE), np.asarray(image))


def test_a_16_bit_color_key_is_transparent() -> None:
    levels = np.array([[1000, 2000]], np.uint16)
    data = png_file(levels, chunks=[(b"tRNS", struct.pack(">H", 2000))])
    assert stored(data, channels=4)[0, :, 3].tolist() == [255, 0]


@each("resample", Resample)
def test_invisible_pixels_do_not_color_a_transparent_edge(resample: Resample) -> None:
    image = Image.new("RGBA", (64, 64), (0, 255, 0, 0))
    image.paste((255, 0, 0, 255), (0, 0, 33, 64))
    spec = ImageSpec(image_size=(20, 20), image_encoding=ImageEncoding.RAW, channels=4, resample=resample)
    result = pixels(convert_image(encoded(image, "PNG"), spec))
    visible = result[..., 3] > 8
    assert result[visible][:, 1].max() < 30


def test_exif_is_not_stored() -> None:
    photo = next(photo for photo in PHOTOS if photo.stem == "flower_06")
    assert b"Exif" in photo.read_bytes()
    for codec in Codec:
        assert b"Exif" not in convert_image(photo.read_bytes(), ImageSpec(codec=codec)).data
