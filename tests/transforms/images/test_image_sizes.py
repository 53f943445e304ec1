"""Which size an image ends with."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from transforms.images.convert import convert_image
from transforms.images.resize import plan_size
from transforms.images.spec import Codec, ImageEncoding, ImageSpec, ResizeMode

SIDES = st.integers(1, 5000)
COVERING = (ResizeMode.SHORTER, ResizeMode.CROP)
FITTING = (ResizeMode.LONGER, ResizeMode.PAD)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([*COVERING, *FITTING]))
def test_the_scale_is_the_smallest_that_covers_or_the_largest_that_fits(
    height: int, width: int, target_height: int, target_width: int, mode: ResizeMode
) -> None:
    plan = plan_size(height, width, ImageSpec(size=(target_height, target_width), resize_mode=mode))
    choose = max if mode in COVERING else min
    scale = choose(target_height / height, target_width / width)
    assert abs(plan.height - height * scale) <= 0.5 + 1e-6 or plan.height == 1
    assert abs(plan.width - width * scale) <= 0.5 + 1e-6 or plan.width == 1
    assert plan.height == target_height or plan.width == target_width


@given(SIDES, SIDES, SIDES, SIDES)
def test_exact_crop_and_pad_end_with_the_size_asked_for(
    height: int, width: int, target_height: int, target_width: int
) -> None:
    for mode in (ResizeMode.EXACT, ResizeMode.CROP, ResizeMode.PAD):
        plan = plan_size(height, width, ImageSpec(size=(target_height, target_width), resize_mode=mode))
        assert (plan.final_height, plan.final_width) == (target_height, target_width)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from(ResizeMode))
def test_nothing_grows_without_upscaling(
    height: int, width: int, target_height: int, target_width: int, mode: ResizeMode
) -> None:
    size = target_height, target_width
    with_it = plan_size(height, width, ImageSpec(size=size, resize_mode=mode))
    without = plan_size(height, width, ImageSpec(size=size, resize_mode=mode, upscale=False))
    assert without.height <= height
    assert without.width <= width
    if with_it.height <= height and with_it.width <= width:
        assert without == with_it


@pytest.mark.parametrize(
    ("mode", "upscale", "expected"),
    [
        (ResizeMode.SHORTER, True, (256, 341)),
        (ResizeMode.LONGER, True, (192, 256)),
        (ResizeMode.EXACT, True, (256, 256)),
        (ResizeMode.PAD, True, (256, 256)),
        (ResizeMode.CROP, True, (256, 256)),
        (ResizeMode.SHORTER, False, (256, 341)),
    ],
)
def test_a_photo_of_375x500_to_256(mode: ResizeMode, upscale: bool, expected: tuple[int, int]) -> None:
    plan = plan_size(375, 500, ImageSpec(size=(256, 256), resize_mode=mode, upscale=upscale))
    assert (plan.final_height, plan.final_width) == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ResizeMode.SHORTER, (30, 80)),
        (ResizeMode.LONGER, (23, 60)),
        (ResizeMode.EXACT, (30, 60)),
        (ResizeMode.CROP, (30, 60)),
        (ResizeMode.PAD, (60, 60)),
    ],
)
def test_a_picture_of_30x80_to_60_without_upscaling(mode: ResizeMode, expected: tuple[int, int]) -> None:
    plan = plan_size(30, 80, ImageSpec(size=(60, 60), resize_mode=mode, upscale=False))
    assert (plan.final_height, plan.final_width) == expected


@given(
    st.integers(1, 90), st.integers(1, 90), st.integers(1, 70), st.integers(1, 70),
    st.sampled_from(ResizeMode), st.sampled_from(Codec), st.booleans(), st.sampled_from(["JPEG", "PNG"]),
)  # fmt: skip
def test_the_result_has_the_planned_size(
    height: int, width: int, target_height: int, target_width: int,
    mode: ResizeMode, codec: Codec, upscale: bool, file_format: str,
) -> None:  # fmt: skip
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, file_format)
    spec = ImageSpec(
        size=(target_height, target_width), resize_mode=mode, codec=codec, upscale=upscale,
        encoding=ImageEncoding.RAW,
    )  # fmt: skip
    converted = convert_image(file.getvalue(), spec)
    plan = plan_size(height, width, spec)
    assert (converted.height, converted.width) == (plan.final_height, plan.final_width)
    assert len(converted.data) == converted.height * converted.width * 3
