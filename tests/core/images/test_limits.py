"""Limits, truncated files, and files of any bytes."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, ResizeMode
from tests.core.images.fuzz_images import SPECS, outcome, seed_files
from tests.each import each
from tests.image_checks import detailed, encoded, pixels

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")
FILES = seed_files()
# Kinds that are still valid when their end is missing: a GIF without its trailer or later frames, for example.
WHOLE_ENOUGH = ("gif", "gif_animated", "tiff_deflate", "tiff_group4", "tiff_big_lzw", "pgm_text")
# Kinds whose decoders do not always say that the end is missing.
UNCLEAR = ("tiff_jpeg", "tiff_lzw", "avif", "jpeg2000")


def failure(data: bytes, spec: ImageSpec) -> SampleError:
    with pytest.raises(SampleError) as rejected:
        convert_image(data, spec)
    return rejected.value


FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "PPM", "JPEG2000"]


@each("codec", Codec)
@each("file_format", FORMATS)
def test_the_limit_on_pixels_is_exact(file_format: str, codec: Codec) -> None:
    data = encoded(detailed(30, 50), file_format)
    convert_image(data, ImageSpec(max_pixels=1500, codec=codec))
    error = failure(data, ImageSpec(max_pixels=1499, codec=codec))
    assert (error.stage, error.reason) == (Stage.DECODE, FailureReason.TOO_MANY_PIXELS)
    assert "50 x 30" in error.detail
    assert "`max_pixels=1499`" in error.detail


@each("codec", Codec)
@each("file_format", FORMATS)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_pillows_limit_on_pieces_of_an_image_follows_that_of_the_request(
    file_format: str, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    frames = [detailed(30, 50), Image.new("RGB", (50, 30), "red")]
    more = {"save_all": True, "append_images": frames[1:], "disposal": 2} if file_format == "GIF" else {}
    data = encoded(frames[0], file_format, **more)
    spec = ImageSpec(image_size=(20, 20), resize_mode=ResizeMode.CROP, max_pixels=1501, codec=codec)
    assert convert_image(data, spec).height == 20


@each("codec", Codec)
@each("encoding, side", [(ImageEncoding.JPEG, 65_501), (ImageEncoding.WEBP, 16_384)])
def test_a_side_that_the_format_cannot_hold_is_rejected(encoding: ImageEncoding, side: int, codec: Codec) -> None:
    data = encoded(Image.new("RGB", (2, 2)), "JPEG")
    spec = ImageSpec(image_size=(1, side), resize_mode=ResizeMode.EXACT, image_encoding=encoding, codec=codec)
    error = failure(data, spec)
    assert (error.stage, error.reason) == (Stage.ENCODE, FailureReason.TOO_MANY_PIXELS)
    longest = ImageSpec(image_size=(1, side - 1), resize_mode=ResizeMode.EXACT, image_encoding=encoding, codec=codec)
    assert convert_image(data, longest).width == side - 1


@each("name", FILES)
def test_a_file_cut_anywhere_is_truncated_or_no_image(name: str) -> None:
    data = FILES[name]
    reasons = set()
    for end in range(16, len(data) - 8, max(1, len(data) // 97)):
        try:
            convert_image(data[:end], ImageSpec(image_size=(8, 8)))
        except SampleError as error:
            reasons.add(error.reason)
        else:
            assert name in WHOLE_ENOUGH
    assert FailureReason.TRUNCATED in reasons
    assert reasons <= {FailureReason.TRUNCATED, *([FailureReason.CORRUPT] if name.startswith(UNCLEAR) else [])}


@each("codec", Codec)
@each(
    "file_format, options",
    [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("BMP", {}), ("TIFF", {}), ("PPM", {}),
     ("GIF", {"interlace": 0})],
)  # fmt: skip
def test_the_rows_of_a_truncated_file_are_taken_if_allowed(file_format: str, options: dict, codec: Codec) -> None:
    data = encoded(detailed(90, 120), file_format, **options)
    cut = data[: len(data) * 3 // 4]
    raw = ImageSpec(image_encoding=ImageEncoding.RAW, codec=codec)
    assert failure(cut, raw).reason is FailureReason.TRUNCATED
    allowed = ImageSpec(image_encoding=ImageEncoding.RAW, codec=codec, allow_truncated=True)
    part, whole = convert_image(cut, allowed), convert_image(data, raw)
    assert (part.height, part.width) == (whole.height, whole.width)
    same = np.abs(pixels(part).astype(int) - pixels(whole)).max(axis=2) < 40
    assert 0.3 < same.mean() < 1
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_a_sample_error_can_be_pickled() -> None:
    error = failure(b"", ImageSpec())
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.stage, copy.reason, copy.detail) == (error.stage, error.reason, error.detail)


@given(st.binary(max_size=400))
@settings(max_examples=200)
def test_any_bytes_give_an_image_or_a_reason(data: bytes) -> None:
    for spec in SPECS:
        outcome(data, spec)


@given(st.sampled_from(sorted(FILES)), st.data())
@settings(max_examples=300)
def test_any_file_with_replaced_bytes_gives_an_image_or_a_reason(name: str, draws: st.DataObject) -> None:
    data = bytearray(FILES[name])
    at = draws.draw(st.integers(0, len(data) - 1))
    data[at : at + 4] = draws.draw(st.binary(min_size=1, max_size=6))
    outcome(bytes(data), ImageSpec(image_size=(16, 16), max_pixels=1 << 20))


@pytest.mark.parametrize("number", [500, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_mutated_files_give_an_image_or_a_reason_in_little_memory(number: int) -> None:
    """In a process of its own: a decoder that crashes, or does not end within 30 seconds, ends it."""
    program = [sys.executable, "-m", "tests.core.images.fuzz_images", "--seed=2024", f"--inputs={number}"]
    ran = subprocess.run(program, capture_output=True, text=True, check=False, start_new_session=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    counted = dict(re.findall(r"^ *[\d,]+ +(\w+)()$", ran.stdout, re.MULTILINE))
    assert {"ok", "corrupt", "truncated", "too_many_pixels", "unsupported_mode"} <= counted.keys()
    assert int(re.search(r"peak of memory: (\d+) MB", ran.stdout)[1]) <= 500
