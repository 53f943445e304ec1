"""Limits, truncated files, and requests that cannot be met."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from tests.fuzz_images import SPECS, inputs, outcome, seed_files
from tests.image_checks import PHOTOS, detailed, encoded, pixels
from tests.image_writers import png_header
from transforms.errors import FailureReason, RequestError, SampleError, Stage
from transforms.images.convert import convert_image
from transforms.images.spec import Codec, ImageEncoding, ImageSpec, ResizeMode

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")
FILES = seed_files()
# The first byte from which a file of each kind says what it is, and the first from which it is whole
# enough: a TIFF without the last link of its directory, a GIF without its trailer or its later frames.
WHOLE_ENOUGH = ("gif", "gif_animated", "tiff_deflate", "tiff_group4", "pgm_text")


def refusal(data: bytes, spec: ImageSpec) -> SampleError:
    with pytest.raises(SampleError) as refused:
        convert_image(data, spec)
    return refused.value


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "PPM", "JPEG2000"])
def test_the_limit_on_pixels_is_exact(file_format: str, codec: Codec) -> None:
    data = encoded(detailed(30, 50), file_format)
    convert_image(data, ImageSpec(max_pixels=1500, codec=codec))
    error = refusal(data, ImageSpec(max_pixels=1499, codec=codec))
    assert (error.stage, error.reason) == (Stage.DECODE, FailureReason.TOO_MANY_PIXELS)
    assert "50 x 30" in error.detail
    assert "1499" in error.detail


def test_pillows_own_limit_neither_warns_nor_refuses() -> None:
    data = png_header(13_000, 13_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refusal(data, ImageSpec(max_pixels=10**6)).reason is FailureReason.TOO_MANY_PIXELS
        spec = ImageSpec(encoding=ImageEncoding.KEEP, channels=None, check="header", max_pixels=10**12)
        assert convert_image(png_header(20_000, 20_000), spec).height == 20_000


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_a_sliver_that_would_become_huge_is_refused(file_format: str, codec: Codec) -> None:
    data = encoded(Image.new("RGB", (1, 60_000)), file_format)
    error = refusal(data, ImageSpec(size=(256, 256), codec=codec, max_pixels=10**8))
    assert error.reason is FailureReason.TOO_MANY_PIXELS


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(("encoding", "side"), [(ImageEncoding.JPEG, 65_501), (ImageEncoding.WEBP, 16_384)])
def test_a_side_that_the_format_cannot_hold_is_refused(encoding: ImageEncoding, side: int, codec: Codec) -> None:
    data = encoded(Image.new("RGB", (2, 2)), "JPEG")
    spec = ImageSpec(size=(1, side), resize_mode=ResizeMode.EXACT, encoding=encoding, codec=codec)
    error = refusal(data, spec)
    assert (error.stage, error.reason) == (Stage.ENCODE, FailureReason.TOO_MANY_PIXELS)
    longest = ImageSpec(size=(1, side - 1), resize_mode=ResizeMode.EXACT, encoding=encoding, codec=codec)
    assert convert_image(data, longest).width == side - 1


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_truncated_or_no_image(name: str) -> None:
    data = FILES[name]
    reasons = set()
    for end in range(16, len(data) - 8, max(1, len(data) // 97)):
        try:
            convert_image(data[:end], ImageSpec(size=(8, 8)))
        except SampleError as error:
            reasons.add(error.reason)
        else:
            assert name in WHOLE_ENOUGH
    assert reasons == {FailureReason.TRUNCATED}


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    ("file_format", "options"),
    [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("BMP", {}), ("TIFF", {}), ("PPM", {}),
     ("GIF", {"interlace": 0})],
)  # fmt: skip
def test_what_there_is_of_a_truncated_file_is_taken_on_request(file_format: str, options: dict, codec: Codec) -> None:
    data = encoded(detailed(90, 120), file_format, **options)
    cut = data[: len(data) * 3 // 4]
    raw = ImageSpec(encoding=ImageEncoding.RAW, codec=codec)
    assert refusal(cut, raw).reason is FailureReason.TRUNCATED
    allowed = ImageSpec(encoding=ImageEncoding.RAW, codec=codec, allow_truncated=True)
    part, whole = convert_image(cut, allowed), convert_image(data, raw)
    assert (part.height, part.width) == (whole.height, whole.width)
    same = np.abs(pixels(part).astype(int) - pixels(whole)).max(axis=2) < 40
    assert 0.3 < same.mean() < 1
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_a_corrupt_file_is_refused_even_if_truncated_ones_are_taken() -> None:
    data = PHOTOS[0].read_bytes()
    hole = data[: len(data) // 2] + data[len(data) // 2 + 3000 :]
    assert refusal(hole, ImageSpec(allow_truncated=True)).reason is FailureReason.CORRUPT


def test_a_truncated_file_without_a_header_stays_refused() -> None:
    spec = ImageSpec(allow_truncated=True)
    assert refusal(PHOTOS[0].read_bytes()[:100], spec).reason is FailureReason.TRUNCATED


def test_a_refusal_survives_the_way_to_another_process() -> None:
    error = refusal(b"", ImageSpec())
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.stage, copy.reason, copy.detail) == (error.stage, error.reason, error.detail)


@pytest.mark.parametrize(
    "request_",
    [
        {"size": (0, 5)}, {"channels": 2}, {"jpeg_quality": 0}, {"jpeg_quality": 101}, {"channels": 4},
        {"channels": 1, "encoding": ImageEncoding.WEBP},
    ],
)  # fmt: skip
def test_a_request_that_no_image_can_meet_is_refused_at_once(request_: dict) -> None:
    with pytest.raises(RequestError, match=r"^--"):
        ImageSpec(**request_)


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_a_picture_or_a_reason(data: bytes) -> None:
    for spec in SPECS:
        outcome(data, spec)


@given(st.sampled_from(sorted(FILES)), st.data())
@settings(max_examples=300, deadline=None)
def test_any_file_with_bytes_replaced_gives_a_picture_or_a_reason(name: str, draws: st.DataObject) -> None:
    data = bytearray(FILES[name])
    at = draws.draw(st.integers(0, len(data) - 1))
    data[at : at + 4] = draws.draw(st.binary(min_size=1, max_size=6))
    outcome(bytes(data), ImageSpec(size=(16, 16), max_pixels=1 << 20))


def test_five_thousand_mutated_files_give_a_picture_or_a_reason() -> None:
    outcomes = {outcome(data, spec) for _, data, spec in inputs(seed=2024, first=0, count=5000)}
    assert {"ok", "corrupt", "truncated", "too_many_pixels"} <= outcomes
