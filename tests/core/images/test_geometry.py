"""Sizes of stored images, and where the pixels of the source end up in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.images.orient import plan_geometry
from tests.each import each
from tests.image_checks import encoded, pixels

SIDES = st.integers(1, 5000)
COVERING = (ResizeMode.SHORTER, ResizeMode.CROP)
FITTING = (ResizeMode.LONGER, ResizeMode.PAD)


def plan(
    height: int, width: int, size: tuple[int, int], mode: ResizeMode, *, upscale: bool = True, orientation: int = 1
) -> Geometry:
    spec = ImageSpec(image_size=size, resize_mode=mode, upscale=upscale, max_pixels=10**12)
    return plan_geometry(height, width, orientation=orientation, spec=spec)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([*COVERING, *FITTING]))
def test_the_scale_is_the_smallest_that_covers_or_the_largest_that_fits(
    height: int, width: int, target_height: int, target_width: int, mode: ResizeMode
) -> None:
    made = plan(height, width, (target_height, target_width), mode)
    choose = max if mode in COVERING else min
    scale = choose(target_height / height, target_width / width)
    assert abs(made.resized[0] - height * scale) <= 0.5 + 1e-6 or made.resized[0] == 1
    assert abs(made.resized[1] - width * scale) <= 0.5 + 1e-6 or made.resized[1] == 1
    assert made.resized[0] == target_height or made.resized[1] == target_width


@given(SIDES, SIDES, SIDES, SIDES)
def test_exact_crop_and_pad_end_with_the_size_asked_for(
    height: int, width: int, target_height: int, target_width: int
) -> None:
    for mode in (ResizeMode.EXACT, ResizeMode.CROP, ResizeMode.PAD):
        made = plan(height, width, (target_height, target_width), mode)
        assert made.final == (target_height, target_width)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from(ResizeMode))
def test_nothing_grows_without_upscaling(
    height: int, width: int, target_height: int, target_width: int, mode: ResizeMode
) -> None:
    size = target_height, target_width
    with_it, without = (plan(height, width, size, mode, upscale=upscale) for upscale in (True, False))
    assert without.resized[0] <= height
    assert without.resized[1] <= width
    if with_it.resized[0] <= height and with_it.resized[1] <= width:
        assert without == with_it


@each("codec", Codec)
@each("file_format", ["JPEG", "PNG"])
@each("mode", ResizeMode)
@each("orientation", range(1, 9))
def test_the_map_says_where_a_bright_dot_is_stored(
    orientation: int, mode: ResizeMode, file_format: str, codec: Codec
) -> None:
    image = Image.new("L", (120, 90))
    image.paste(255, (48, 32, 56, 40))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(image, file_format, exif=exif)
    spec = ImageSpec(image_size=(60, 50), resize_mode=mode, codec=codec, channels=1, image_encoding=ImageEncoding.RAW)
    stored = pixels(convert_image(data, spec))[..., 0].astype(float)
    stored[stored < 30] = 0  # ringing and the noise of JPEG
    rows, columns = np.indices(stored.shape) + 0.5
    seen = (stored * columns).sum() / stored.sum(), (stored * rows).sum() / stored.sum()
    geometry = plan_geometry(90, 120, orientation=orientation, spec=spec)
    assert geometry.to_stored() @ (52, 36, 1) == pytest.approx(seen, abs=0.15)
