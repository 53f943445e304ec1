"""codec=fast is within 38 dB PSNR of codec=exact on the sample photos, without a shift or a change of color."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.fast_jpeg import place_plain_jpeg
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, Resample, ResizeMode
from tests.each import each
from tests.image_checks import PHOTO_IDS, PHOTOS, detailed, encoded, pixels, psnr, upright, with_profile
from tests.image_writers import P3_COLORANTS, PROPHOTO_COLORANTS, icc_profile, to_profile
from tests.make_corpus import corpus

FILTERED = [Resample.BICUBIC, Resample.BILINEAR, Resample.LANCZOS]


def both(data: bytes, spec: ImageSpec) -> tuple[np.ndarray, np.ndarray]:
    """Pixels of the exact and of the fast codec."""
    exact = convert_image(data, dataclasses.replace(spec, codec=Codec.EXACT))
    fast = convert_image(data, dataclasses.replace(spec, codec=Codec.FAST))
    assert dataclasses.replace(exact, data=b"") == dataclasses.replace(fast, data=b"")
    return pixels(exact), pixels(fast)


def assert_faithful(exact: np.ndarray, fast: np.ndarray, least: float = 38) -> None:
    assert psnr(exact, fast) >= least
    difference = fast.astype(np.float64) - exact
    assert np.abs(difference.mean(axis=(0, 1))).max() < 0.5
    assert max(shift(exact, fast)) < 0.05


def shift(exact: np.ndarray, fast: np.ndarray) -> tuple[float, float]:
    """Pixels down and across by which the second image is shifted, estimated from the slopes of the first."""
    grey = exact.astype(np.float64).mean(axis=2)
    slopes = np.stack([slope.ravel() for slope in np.gradient(grey)], axis=1)
    difference = grey - fast.astype(np.float64).mean(axis=2)
    down, across = np.linalg.lstsq(slopes, difference.ravel(), rcond=None)[0]
    return abs(down), abs(across)


def test_a_shift_of_a_tenth_of_a_pixel_is_detected() -> None:
    image = detailed(520, 520)
    here, there = (np.asarray(image.resize((100, 100), box=(10, top, 510, top + 500))) for top in (10, 10.5))
    assert shift(here, there)[0] == pytest.approx(0.1, abs=0.04)


@each("photo", PHOTOS, ids=PHOTO_IDS)
@each("encoding", [ImageEncoding.RAW, ImageEncoding.JPEG])
@each("side", [100, 256])
def test_photos_are_within_38_db(photo: Path, encoding: ImageEncoding, side: int) -> None:
    assert_faithful(*both(photo.read_bytes(), ImageSpec(image_size=(side, side), image_encoding=encoding)))


@each("resample", FILTERED)
@each("side", [24, 61, 88, 120, 187, 250, 299, 330, 512])
def test_every_filter_is_within_38_db_at_every_scale(resample: Resample, side: int) -> None:
    photo = next(photo for photo in PHOTOS if photo.stem == "building_02")
    spec = ImageSpec(image_size=(side, side), resample=resample, image_encoding=ImageEncoding.RAW)
    assert_faithful(*both(photo.read_bytes(), spec))


def ruled(step: int, width: int) -> Image.Image:
    image = Image.new("RGB", (1200, 900), "white")
    draw = ImageDraw.Draw(image)
    for place in range(0, 1200, step):
        draw.line((place, 0, place, 900), fill="black", width=width)
        draw.line((0, place, 1200, place), fill="black", width=width)
    return image


def written(size: int) -> Image.Image:
    image = Image.new("RGB", (1200, 900), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    for top in range(0, 900, size + 4):
        draw.text((5, top), "The quick brown fox jumps over the lazy dog 0123456789 " * 4, fill="black", font=font)
    return image


# The images for which docs/images.md promises less, with what it says.
FINE = {
    "hatching": (lambda: ruled(5, 1), 20),
    "ruled": (lambda: ruled(20, 1), 28),
    "text 10": (lambda: written(10), 30),
    "text 16": (lambda: written(16), 30),
    "noise": (lambda: Image.fromarray(np.random.default_rng(1).integers(0, 256, (900, 1200, 3), np.uint8)), 30),
}


@pytest.mark.nightly
@each("resample", [Resample.BICUBIC, Resample.LANCZOS])
@each("side", [100, 224, 600])
@each("kind", FINE)
def test_detail_within_a_stored_pixel_is_as_close_as_the_documents_say(
    kind: str, side: int, resample: Resample
) -> None:
    draw, least = FINE[kind]
    spec = ImageSpec(image_size=(side, side), resample=resample, image_encoding=ImageEncoding.RAW)
    exact, fast = both(encoded(draw(), "JPEG", quality=92), spec)
    assert psnr(exact, fast) >= least
    assert np.abs((fast.astype(np.float64) - exact).mean(axis=(0, 1))).max() < 3


@each("resample", [Resample.NEAREST, Resample.BOX])
def test_nearest_and_box_are_pillows_own(resample: Resample) -> None:
    spec = ImageSpec(image_size=(70, 70), resample=resample, image_encoding=ImageEncoding.RAW)
    exact, fast = both(PHOTOS[0].read_bytes(), spec)
    np.testing.assert_array_equal(exact, fast)


@pytest.mark.nightly
@each("size", [(1543, 2049), (1537, 2055), (2000, 1001)])
@each("side", [60, 131, 256])
def test_a_large_photo_decoded_at_a_fraction_is_not_shifted(size: tuple[int, int], side: int) -> None:
    data = encoded(detailed(*size), "JPEG", quality=90)
    spec = ImageSpec(image_size=(side, side), image_encoding=ImageEncoding.RAW)
    exact, fast = both(data, spec)
    assert_faithful(exact, fast)
    # The far corner is where a wrong scale shows.
    assert_faithful(exact[-side // 2 :, -side // 2 :], fast[-side // 2 :, -side // 2 :], least=36)


@each("mode", ResizeMode)
@each("orientation", range(1, 9))
def test_every_resize_mode_and_orientation_is_within_38_db(mode: ResizeMode, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(detailed(151, 203), "JPEG", quality=95, exif=exif)
    spec = ImageSpec(image_size=(97, 112), resize_mode=mode, image_encoding=ImageEncoding.RAW)
    exact, fast = both(data, spec)
    assert psnr(exact, fast) >= 38


@each("upscale", [True, False])
def test_a_small_photo_is_enlarged_or_left_alike(upscale: bool) -> None:
    data = encoded(detailed(60, 80), "JPEG", quality=95)
    spec = ImageSpec(image_size=(150, 150), upscale=upscale, image_encoding=ImageEncoding.RAW)
    exact, fast = both(data, spec)
    assert exact.shape == ((150, 200, 3) if upscale else (60, 80, 3))
    assert_faithful(exact, fast)


@each("channels", [1, 3, 4, None])
@each("source", ["RGB", "L"])
@each("size", [None, (50, 50)])
def test_every_number_of_channels_is_within_38_db(
    channels: int | None, source: str, size: tuple[int, int] | None
) -> None:
    data = encoded(detailed(100, 120).convert(source), "JPEG", quality=95)
    spec = ImageSpec(channels=channels, image_size=size, image_encoding=ImageEncoding.RAW)
    exact, fast = both(data, spec)
    assert psnr(exact, fast) >= 38


@each("quality", [1, 50, 75, 95, 96, 100])
@each("source", ["RGB", "L"])
def test_without_a_size_the_jpeg_is_byte_for_byte_pillows(quality: int, source: str) -> None:
    data = encoded(detailed(101, 77).convert(source), "JPEG", quality=92)
    for channels in (3, None):
        spec = ImageSpec(jpeg_quality=quality, channels=channels)
        exact = convert_image(data, dataclasses.replace(spec, codec=Codec.EXACT))
        assert convert_image(data, spec) == exact


def test_images_other_than_jpegs_are_within_38_db() -> None:
    picture = detailed(211, 320)
    for data in (encoded(picture, "PNG"), encoded(picture.convert("L"), "PNG"), encoded(picture, "WEBP")):
        assert_faithful(*both(data, ImageSpec(image_size=(90, 90), image_encoding=ImageEncoding.RAW)))


@pytest.mark.nightly
def test_a_large_transparent_image_shrunk_in_strips_is_within_38_db() -> None:
    rows, columns = np.ogrid[0:4500, 0:3801]
    picture = Image.fromarray((128 + 120 * np.sin(rows / 40) * np.cos(columns / 49)).astype(np.uint8))
    picture.putpalette(np.random.default_rng(6).integers(0, 256, 768, np.uint8).tobytes())
    data = encoded(picture, "PNG", compress_level=1, transparency=bytes(range(256)))
    assert_faithful(*both(data, ImageSpec(image_size=(301, 301), image_encoding=ImageEncoding.RAW)))


def test_a_wide_gamut_jpeg_is_converted_by_the_fast_codec() -> None:
    data = corpus()["profile_wide.jpg"].data
    assert place_plain_jpeg(data, ImageSpec()) is not None
    assert_faithful(*both(data, ImageSpec(image_size=(24, 24), image_encoding=ImageEncoding.RAW)))


@each("photo", PHOTOS[::3], ids=PHOTO_IDS[::3])
@each("colorants, gamma", [(P3_COLORANTS, 2.2), (PROPHOTO_COLORANTS, 1.8)])
@each("encoding", [ImageEncoding.RAW, ImageEncoding.JPEG])
def test_photos_with_a_profile_are_within_38_db(
    photo: Path, colorants: np.ndarray, gamma: float, encoding: ImageEncoding
) -> None:
    image = upright(photo)
    numbers = Image.fromarray(to_profile(np.asarray(image), colorants, gamma))
    data = encoded(numbers, "JPEG", quality=95, icc_profile=icc_profile(colorants, gamma))
    exact, fast = both(data, ImageSpec(image_size=(120, 120), image_encoding=encoding))
    assert psnr(exact, fast) >= 38
    assert psnr(np.asarray(image.resize((exact.shape[1], exact.shape[0]))), fast) >= 30


def test_an_ignored_orientation_leaves_the_image_as_stored() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(detailed(151, 203), "JPEG", quality=95, exif=exif)
    exact, fast = both(data, ImageSpec(orientation=Metadata.IGNORE, image_encoding=ImageEncoding.RAW))
    assert exact.shape == (151, 203, 3)
    assert_faithful(exact, fast)


@each("encoding", [ImageEncoding.RAW, ImageEncoding.JPEG])
def test_grey_output_of_a_photo_with_a_profile_is_within_38_db(encoding: ImageEncoding) -> None:
    data = with_profile(PHOTOS[0].read_bytes(), icc_profile(P3_COLORANTS, 2.2))
    exact, fast = both(data, ImageSpec(image_size=(120, 120), channels=1, image_encoding=encoding))
    assert psnr(exact, fast) >= 38


@each(
    "name",
    ["progressive.jpg", "chroma_444.jpg", "chroma_422.jpg", "restart_markers.jpg", "grey.jpg",
     "rgb_not_ycbcr.jpg", "orientation_6.jpg", "exif_garbage.jpg", "multi_picture.mpo"],
)  # fmt: skip
def test_plain_jpegs_are_converted_by_the_fast_codec(name: str) -> None:
    assert place_plain_jpeg(corpus()[name].data, ImageSpec()) is not None


@each("name", ["cmyk_adobe_inverted.jpg", "arithmetic.jpg", "cut_in_scan.jpg", "12_bits.jpg"])
def test_other_jpegs_are_left_to_pillow(name: str) -> None:
    assert place_plain_jpeg(corpus()[name].data, ImageSpec()) is None
