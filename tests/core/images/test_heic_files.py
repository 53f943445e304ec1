"""HEIC files, as Pillow writes them with the extra `heif`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import check_file, convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec
from tests.image_checks import detailed, encoded, pixels, psnr
from tests.image_writers import P3_COLORANTS, icc_profile, to_profile

pillow_heif = pytest.importorskip("pillow_heif")

pytestmark = pytest.mark.nightly

RAW = ImageSpec(image_encoding=ImageEncoding.RAW)
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)


@pytest.fixture(autouse=True)
def heif(monkeypatch):
    """Pillow writes HEIC as long as a test runs."""
    monkeypatch.setattr(Image, "SAVE", {**Image.SAVE})
    monkeypatch.setattr(Image, "OPEN", {**Image.OPEN})
    monkeypatch.setattr(Image, "ID", [*Image.ID])
    pillow_heif.register_heif_opener()


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_a_heic_file_is_converted_to_the_image_it_shows(mode, codec):
    image = detailed(90, 120).convert("RGB")
    if mode == "RGBA":
        image.putalpha(detailed(90, 120, seed=1).convert("L"))
    exif = Image.Exif()
    exif[0x0112] = 6
    shown = image.convert(mode)
    shown.info["exif"] = exif.tobytes()  # the file says in its own way, too, how it is turned
    data = encoded(shown, "HEIF", quality=95, chroma=444)
    seen = pixels(convert_image(data, dataclasses.replace(RAW, codec=codec, channels=4 if mode == "RGBA" else 3)))
    expected = np.asarray(image.convert(mode).convert("RGBA" if mode == "RGBA" else "RGB"))
    assert psnr(seen, np.ascontiguousarray(np.rot90(expected, -1))) >= 35


def test_the_color_profile_of_a_phone_is_applied():
    muted = Image.fromarray((np.asarray(detailed(90, 120)) // 4 + 96).astype(np.uint8))
    wide = Image.fromarray(to_profile(np.asarray(muted), P3_COLORANTS, 2.2))
    data = encoded(wide, "HEIF", quality=98, chroma=444, icc_profile=icc_profile(P3_COLORANTS, 2.2))
    assert psnr(pixels(convert_image(data, RAW)), np.asarray(muted)) >= 35


def test_a_heic_file_is_kept_as_png_and_a_damaged_one_is_rejected():
    data = encoded(detailed(90, 120), "HEIF")
    made = convert_image(data, KEEP)
    assert (made.format, made.replaced_format) == ("png", "heic")
    assert check_file(data, KEEP).format == "heic"
    for end in range(20, len(data), len(data) // 40):
        with pytest.raises(SampleError) as rejected:
            convert_image(data[:end], RAW)
        assert rejected.value.reason in (FailureReason.TRUNCATED, FailureReason.CORRUPT)
    with pytest.raises(SampleError) as rejected:
        convert_image(data, dataclasses.replace(RAW, max_pixels=1000))
    assert rejected.value.reason is FailureReason.TOO_MANY_PIXELS
