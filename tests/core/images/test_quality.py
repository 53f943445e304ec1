"""The quality columns: as they are defined, the same from every path, and right about planted faults."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from PIL import Image, ImageFilter

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.quality import measure_array, measure_image
from tests.each import each
from tests.image_checks import PHOTOS, detailed, encoded, upright
from tests.image_writers import png_file

SPEC = ImageSpec(image_size=(256, 256))
Change = Callable[[Image.Image], Image.Image]


def measure(image: Image.Image, spec: ImageSpec = SPEC) -> dict[str, float]:
    """The columns of an image that is converted."""
    quality = convert_image(encoded(image, "JPEG", quality=95), spec).quality
    assert quality is not None
    return quality._asdict()


@functools.cache
def photos() -> dict[str, Image.Image]:
    return {photo.stem: upright(photo) for photo in PHOTOS}


@functools.cache
def measured() -> dict[str, dict[str, float]]:
    return {name: measure(image) for name, image in photos().items()}


def distance(one: float, other: float) -> int:
    """Bits that differ."""
    return (int(one) ^ int(other)).bit_count()


@each("size", [(1, 1), (1, 300), (64, 64), (63, 65), (97, 200), (256, 341)])
def test_the_columns_are_what_their_definition_says(size: tuple[int, int]) -> None:
    height, width = size
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    rows = np.floor((np.arange(64) + 0.5) * height / 64).astype(int)
    columns = np.floor((np.arange(64) + 0.5) * width / 64).astype(int)
    grey = cv2.cvtColor(pixels[np.ix_(rows, columns)], cv2.COLOR_RGB2GRAY).astype(float)
    assert np.abs(np.round(pixels[np.ix_(rows, columns)] @ [0.299, 0.587, 0.114]) - grey).max() <= 1
    cosines = np.cos(np.pi / 32 * np.outer(np.arange(8), np.arange(32) + 0.5))
    frequencies = cosines @ grey.reshape(32, 2, 32, 2).mean(axis=(1, 3)) @ cosines.T
    bits = frequencies.ravel() > np.sort(frequencies.ravel())[31]
    found = measure_array(pixels, "RGB")
    assert found.brightness == pytest.approx(grey.mean())
    assert found.contrast == pytest.approx(grey.std())
    if min(size) > 1:  # of an image that is flat in one direction, most frequencies are nearly 0
        assert distance(found.phash, int("".join(map(str, bits.astype(int))), 2)) <= 4


@each("height, rows", [(2, [(0, 2)]), (32, [(0, 32)]), (256, [(28, 36), (92, 100), (156, 164), (220, 228)])])
def test_sharpness_is_the_variance_of_the_laplacian_of_bands(height: int, rows: list[tuple[int, int]]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (height, 90), dtype=np.uint8)
    found = []
    for begin, end in rows:
        grey = pixels[begin:end].astype(float)
        padded = np.pad(grey, 1, "reflect")
        found.append(padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * grey)
    assert measure_array(pixels, "").sharpness == pytest.approx(np.concatenate(found).var())


@each("size", [(1, 1), (7, 300), (32, 32), (33, 61), (64, 64), (97, 200), (600, 401)])
def test_arrays_and_images_of_any_order_and_depth_give_the_same(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    with_alpha = np.dstack([pixels, pixels[..., 0]])
    same = [
        measure_array(pixels, "RGB"),
        measure_image(Image.fromarray(pixels)),
        measure_array(np.ascontiguousarray(pixels[..., ::-1]), "BGR"),
        measure_array(pixels.astype(np.uint16) << 8, "RGB"),
        measure_array(with_alpha, "RGBA"),
        measure_image(Image.fromarray(with_alpha)),
    ]
    assert set(same) == {same[0]}
    assert measure_array(pixels[..., 1], "") == measure_image(Image.fromarray(pixels[..., 1]))


def test_both_codecs_and_every_encoding_measure_nearly_the_same() -> None:
    for photo in ("cat_01", "person_05", "building_06"):
        one = measured()[photo]
        specs = [dataclasses.replace(SPEC, image_encoding=ImageEncoding(name)) for name in ("png", "webp", "raw")]
        specs.append(ImageSpec(image_size=(256, 256), image_encoding=ImageEncoding.PNG, bit_depth=16))
        for spec in (dataclasses.replace(SPEC, codec=Codec.EXACT), *specs):
            other = measure(photos()[photo], spec)
            assert abs(one["brightness"] - other["brightness"]) < 1
            assert abs(one["contrast"] - other["contrast"]) < 1
            assert one["sharpness"] == pytest.approx(other["sharpness"], rel=0.15)
            assert distance(one["phash"], other["phash"]) <= 2


def test_a_kept_file_is_not_measured_and_one_that_is_encoded_again_is() -> None:
    keep = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
    assert convert_image(png_file(np.zeros((9, 9, 3), np.uint8)), keep).quality is None
    assert convert_image(encoded(detailed(30, 40), "TIFF"), keep).quality is not None


@each(
    "column, change",
    [
        ("sharpness", lambda image: image.filter(ImageFilter.GaussianBlur(max(image.size) / 60))),
        ("brightness", lambda image: image.point(lambda value: value // 30)),
        ("contrast", lambda image: Image.blend(image, Image.new("RGB", image.size, "grey"), 0.97)),
    ],
    ids=["blurred", "dark", "flat"],
)
def test_a_planted_fault_is_last_among_real_photos(column: str, change: Change) -> None:
    others = [found[column] for found in measured().values()]
    for name in ("cat_03", "coffee_06", "building_02", "flower_04", "person_01", "rocket_02"):
        assert measure(change(photos()[name]))[column] < min(others), name


def test_a_bright_image_is_first() -> None:
    bright = photos()["cat_03"].point(lambda value: 255 - (255 - value) // 10)
    assert measure(bright)["brightness"] > max(found["brightness"] for found in measured().values())


@each(
    "change",
    [
        lambda image: Image.open(io.BytesIO(encoded(image, "JPEG", quality=30))),
        lambda image: image.resize((image.width * 7 // 10, image.height * 7 // 10), Image.Resampling.LANCZOS),
        lambda image: image.resize((image.width * 3 // 2, image.height * 3 // 2), Image.Resampling.BICUBIC),
        lambda image: image.point(lambda value: min(255, value * 11 // 10)),
    ],
    ids=["re-encoded", "reduced", "enlarged", "brighter"],
)
def test_the_hashes_of_one_photo_are_near(change: Change) -> None:
    distances = {
        name: distance(measured()[name]["phash"], measure(change(photos()[name]))["phash"]) for name in photos()
    }
    assert max(distances.values()) <= 4, distances


def test_the_hashes_of_different_photos_are_far() -> None:
    names = sorted(photos())
    near = {
        (one, other): distance(measured()[one]["phash"], measured()[other]["phash"])
        for number, one in enumerate(names)
        for other in names[:number]
    }
    assert min(near.values()) > 10, min(near, key=lambda pair: near[pair])
