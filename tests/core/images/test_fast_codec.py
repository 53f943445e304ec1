"""codec=fast is within 38 dB PSNR of codec=exact on the sample photos, without a shift or a change of color."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.convert_pixels import place_plain_jpeg
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Resample
from tests.core.images.corpus import corpus
from tests.each import each
from tests.image_checks import PHOTO_IDS, PHOTOS, detailed, encoded, pixels, psnr


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
