"""Masks follow their images, exactly."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.formats import PNG_START
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.images.masks import place_mask, read_mask
from beam_tfrecords.transforms.images.orient import orient, plan_geometry
from tests.each import each
from tests.image_checks import encoded, pixels
from tests.image_writers import png_chunk


def shape_of(height: int, width: int) -> np.ndarray:
    """A shape that looks different however it is turned: [H, W] of 0 and 255."""
    shape = np.zeros((height, width), np.uint8)
    shape[height // 5 : height // 2, width // 4 : width * 4 // 5] = 255
    shape[height // 5 : height * 9 // 10, width // 4 : width * 2 // 5] = 255
    return shape


def widened(shape: np.ndarray, pixels: int) -> np.ndarray:
    """A shape and all that is so many pixels away from it."""
    padded = np.pad(shape, pixels, mode="edge")
    steps = range(2 * pixels + 1)
    height, width = shape.shape
    return np.max([padded[y : y + height, x : x + width] for y in steps for x in steps], axis=0)


@pytest.mark.parametrize("encoding", [ImageEncoding.RAW, ImageEncoding.KEEP])
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("is_upright", [True, False])
@given(
    st.integers(40, 200), st.integers(40, 200), st.sampled_from([None, (48, 64), (97, 50), (160, 171)]),
    st.sampled_from(ResizeMode), st.integers(1, 8), st.sampled_from(["JPEG", "PNG"]), st.booleans(),
)  # fmt: skip
def test_a_shape_in_the_mask_is_where_it_is_in_the_image(
    encoding, codec, is_upright, height, width, size, mode, orientation, file_format, upscale
):
    shape = Image.fromarray(shape_of(height, width))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(shape, file_format, exif=exif, **({"quality": 95} if file_format == "JPEG" else {}))
    drawn = np.asarray(orient(shape, orientation) if is_upright else shape)
    spec = ImageSpec(
        image_size=size, resize_mode=mode, codec=codec, channels=1, upscale=upscale, image_encoding=encoding
    )
    converted = convert_image(data, spec)
    geometry = converted.geometry.keeping(converted.kept_orientation)
    # A mask of a square image, or of one that is upside down, has no size of its own in the file.
    if not is_upright and drawn.shape == geometry.upright_size:
        drawn = np.asarray(orient(shape, orientation))
    mask = place_mask(drawn, geometry)
    assert mask.shape == (converted.height, converted.width)
    seen = pixels(converted)[..., 0]
    bright, dark = seen > 160, seen < 96
    assert not (bright & (widened(mask, 1) == 0)).any()
    assert not (dark & (widened(255 - mask, 1) == 0)).any()


# From an odd number of pixels, the middle of no new pixel is between two old ones, where Pillow's rounding decides.
ODD = st.integers(0, 30).map(lambda number: 2 * number + 1)


@given(ODD, ODD, st.integers(1, 90), st.integers(1, 90), st.sampled_from([np.uint8, np.uint16]))
def test_a_resized_mask_is_the_one_of_pillow(height, width, new_height, new_width, kind):
    mask = np.random.default_rng(height).integers(0, np.iinfo(kind).max, (height, width)).astype(kind)
    spec = ImageSpec(image_size=(new_height, new_width), resize_mode=ResizeMode.EXACT)
    resized = place_mask(mask, plan_geometry(height, width, orientation=1, spec=spec))
    expected = Image.fromarray(mask).resize((new_width, new_height), Image.Resampling.NEAREST)
    assert resized.dtype == kind
    np.testing.assert_array_equal(resized, np.asarray(expected))


def png(mode: str, values: list[int], **options: object) -> bytes:
    image = Image.new(mode, (len(values), 1))
    image.putdata(values)
    if mode == "P":
        image.putpalette([channel for index in range(256) for channel in (index * 91 % 256, index * 37 % 256, 7)])
    return encoded(image, **{"file_format": "PNG", **options})


def grey_png(bits: int, values: bytes) -> bytes:
    """A PNG of one row of grey, packed with 1, 2 or 4 bits; Pillow writes no such."""
    header = struct.pack(">IIBBBBB", len(values) * 8 // bits, 1, bits, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" + values)), (b"IEND", b""))
    return PNG_START + b"".join(png_chunk(kind, data) for kind, data in chunks)


@each(
    "data, numbers",
    [
        (png("L", [0, 1, 254]), [0, 1, 254]),
        (png("P", [0, 1, 3, 255]), [0, 1, 3, 255]),
        (png("P", [0, 1, 3], bits=2), [0, 1, 3]),
        (png("P", [0, 1, 3], transparency=0), [0, 1, 3]),
        (png("P", [2, 1, 0, 9], file_format="GIF", optimize=False), [2, 1, 0, 9]),
        (png("P", [2, 1, 0, 9], file_format="BMP"), [2, 1, 0, 9]),
        (png("1", [0, 1, 1]), [0, 1, 1]),
        (png("1", [0, 1, 1], file_format="TIFF"), [0, 1, 1]),
        (grey_png(1, b"\xa0"), [1, 0, 1, 0, 0, 0, 0, 0]),
        (grey_png(2, b"\x1b"), [0, 1, 2, 3]),
        (grey_png(4, b"\x0f\x27"), [0, 15, 2, 7]),
        (png("I;16", [0, 300, 65535]), [0, 300, 65535]),
        (png("I;16", [0, 300, 65535], file_format="TIFF"), [0, 300, 65535]),
        (png("I", [0, 300, 65535], file_format="TIFF"), [0, 300, 65535]),
        (png("RGB", [(0, 0, 0), (7, 7, 7)]), [0, 7]),
        (png("RGBA", [(0, 0, 0, 255), (7, 7, 7, 255)]), [0, 7]),
        (png("LA", [(0, 255), (7, 255)]), [0, 7]),
    ],
)
def test_the_numbers_of_a_file_are_kept(data, numbers):
    mask = read_mask(data, ImageSpec())
    assert mask.tolist() == [numbers]
    assert mask.dtype == (np.uint16 if max(numbers) > 255 else np.uint8)


@each(
    "data",
    [
        png("RGB", [(0, 0, 0), (7, 7, 8)]),
        png("RGBA", [(0, 0, 0, 255), (7, 7, 7, 0)]),
        png("I", [0, 70_000], file_format="TIFF"),
        png("I", [0, -1], file_format="TIFF"),
        png("F", [0, 0.5], file_format="TIFF"),
        png("L", [0] * 8 + [9] * 8, file_format="JPEG"),
    ],
)
def test_what_has_no_number_for_each_pixel_is_refused(data):
    with pytest.raises(SampleError) as refused:
        read_mask(data, ImageSpec())
    assert refused.value.reason is FailureReason.INVALID_MASK
