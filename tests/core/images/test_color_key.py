"""The color of a PNG that means transparency is compared in the depth of the file."""

from __future__ import annotations

import struct

import cv2
import numpy as np

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec
from tests.each import each
from tests.image_checks import pixels
from tests.image_writers import png_packed

GREY, RGB, PALETTE = 0, 2, 3
# Color type and depth of every PNG that can have a key (PNG, table 11.1); a palette has an alpha for each index.
KINDS = [(GREY, 1), (GREY, 2), (GREY, 4), (GREY, 8), (GREY, 16), (RGB, 8)] + [
    (PALETTE, depth) for depth in (1, 2, 4, 8)
]
HEIGHT, WIDTH = 13, 18


def keys_of(color_type: int, depth: int) -> list[tuple[int, ...]]:
    """All of few values; of many, black, white, and those that differ in a lower or an upper byte alone."""
    white = (1 << depth) - 1
    values = (
        range(white + 1)
        if depth <= 4
        else sorted({0, 1, 2, 85, 200, white - 1, white, *(257, 511, 51_200)[: depth - 8]})
    )
    if color_type != RGB:
        return [(value,) for value in values]
    return [(value, value, value) for value in values] + [(0, 0, 1), (white, 0, 7)]


def make_samples(color_type: int, depth: int, key: tuple[int, ...]) -> np.ndarray:
    """[H, W, C] in which the key, its neighbours, and colors with a part of its bits are frequent."""
    rng = np.random.default_rng([color_type, depth, *key])
    channels, white = len(key), (1 << depth) - 1
    bits = rng.choice([0, 0, 0, 1, 1 << (depth - 1), 256, 255, 65_280], (HEIGHT, WIDTH, channels))
    samples = (np.array(key) ^ bits) & white
    noise = rng.integers(0, white + 1, (HEIGHT, WIDTH, channels))
    return np.where(rng.random((HEIGHT, WIDTH, 1)) < 0.3, noise, samples)


@each("interlaced", [False, True])
@each("color_type, depth", KINDS)
def test_the_pixels_of_the_key_are_transparent_and_no_others(color_type: int, depth: int, interlaced: bool) -> None:
    for key in keys_of(color_type, depth):
        samples = make_samples(color_type, depth, key)
        is_clear = (samples == key).all(axis=2)
        assert is_clear.any()
        assert not is_clear.all()
        packed = struct.pack(f">{len(key)}H", *key)
        transparency = b"\xff" * key[0] + b"\0" if color_type == PALETTE else packed
        data = png_packed(samples, color_type, depth, transparency, interlaced=interlaced)
        for codec in Codec:
            spec = ImageSpec(image_encoding=ImageEncoding.RAW, channels=4, codec=codec)
            np.testing.assert_array_equal(pixels(convert_image(data, spec))[..., 3], np.where(is_clear, 0, 255))
            opaque = pixels(convert_image(data, ImageSpec(image_encoding=ImageEncoding.RAW, codec=codec)))
            assert (opaque[is_clear] == 255).all()
        wide = ImageSpec(image_encoding=ImageEncoding.PNG, channels=4, bit_depth=16)
        stored = cv2.imdecode(np.frombuffer(convert_image(data, wide).data, np.uint8), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(stored[..., 3], np.where(is_clear, 0, 65535))
        if color_type != PALETTE:
            white = (1 << depth) - 1
            expected = samples[..., ::-1] * (65535 // white)
            np.testing.assert_array_equal(
                stored[..., :3][~is_clear], np.broadcast_to(expected, (*is_clear.shape, 3))[~is_clear]
            )


def test_bits_of_a_key_beyond_the_depth_of_the_file_do_not_count() -> None:
    for color_type, depth, key in ((GREY, 4, (0xF3,)), (GREY, 8, (0x103,)), (RGB, 8, (0x103, 0xFF03, 3))):
        kept = tuple(value & (1 << depth) - 1 for value in key)
        samples = make_samples(color_type, depth, kept)
        data = png_packed(samples, color_type, depth, struct.pack(f">{len(key)}H", *key), interlaced=False)
        spec = ImageSpec(image_encoding=ImageEncoding.RAW, channels=4)
        alpha = pixels(convert_image(data, spec))[..., 3]
        np.testing.assert_array_equal(alpha == 0, (samples == kept).all(axis=2))
