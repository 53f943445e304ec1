"""The quality columns: as they are defined, the same from every path, and right about planted faults."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.quality import measure_array, measure_image, measure_together
from tests.each import each
from tests.image_checks import detailed, encoded
from tests.image_writers import png_file


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
    found = measure_together([measure_array(np.zeros_like(pixels), "RGB"), None, measure_array(pixels, "RGB")])
    assert [values[1] for values in found.values()] == [None] * 4
    assert found["brightness"][2] == pytest.approx(grey.mean())
    assert found["contrast"][2] == pytest.approx(grey.std())
    if min(size) > 1:  # of an image that is flat in one direction, most frequencies are nearly 0
        assert distance(found["phash"][2], int("".join(map(str, bits.astype(int))), 2)) <= 4


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


def test_a_kept_file_is_not_measured_and_one_that_is_encoded_again_is() -> None:
    keep = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
    assert convert_image(png_file(np.zeros((9, 9, 3), np.uint8)), keep).quality is None
    assert convert_image(encoded(detailed(30, 40), "TIFF"), keep).quality is not None
