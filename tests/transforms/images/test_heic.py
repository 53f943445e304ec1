"""HEIC files are read where the extra `heif` is installed; elsewhere the failure says how to install it."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import BuildError, FailureReason, SampleError
from beam_tfrecords.transforms import libraries
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec
from tests.image_checks import detailed, encoded, pixels, psnr
from tests.image_writers import P3_COLORANTS, box, icc_profile, to_profile

RAW = ImageSpec(image_encoding=ImageEncoding.RAW)
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)


@pytest.fixture
def heif(monkeypatch):
    """Pillow writes HEIC as long as a test runs."""
    pillow_heif = pytest.importorskip("pillow_heif", reason="needs the extra heif")
    monkeypatch.setattr(Image, "SAVE", {**Image.SAVE})
    monkeypatch.setattr(Image, "OPEN", {**Image.OPEN})
    monkeypatch.setattr(Image, "ID", [*Image.ID])
    pillow_heif.register_heif_opener()


def test_without_the_extra_the_failure_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    data = box(b"ftyp", b"heic\0\0\0\0mif1heic") + bytes(300)
    for spec in (RAW, KEEP, dataclasses.replace(KEEP, keep_any_format=True)):
        with pytest.raises(SampleError, match=r"pip install '\.\[heif\]' in a clone") as rejected:
            convert_image(data, spec)
        assert rejected.value.reason is FailureReason.UNSUPPORTED_FORMAT


def test_machines_with_and_without_the_extra_do_not_share_a_build(monkeypatch):
    here = {name: version for name, version in libraries.library_versions().items() if name != "pillow-heif"}
    for ours, theirs in (({}, {"pillow-heif": "1.1.0"}), ({"pillow-heif": "1.1.0"}, {})):
        monkeypatch.setattr(libraries, "library_versions", lambda ours=ours: {**here, **ours})
        with pytest.raises(BuildError, match=r"pillow-heif is .* where the build was started"):
            libraries.check_libraries({**here, **theirs})
        libraries.check_libraries({**here, **ours})


@pytest.mark.usefixtures("heif")
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


@pytest.mark.usefixtures("heif")
def test_the_color_profile_of_a_phone_is_applied():
    muted = Image.fromarray((np.asarray(detailed(90, 120)) // 4 + 96).astype(np.uint8))
    wide = Image.fromarray(to_profile(np.asarray(muted), P3_COLORANTS, 2.2))
    data = encoded(wide, "HEIF", quality=98, chroma=444, icc_profile=icc_profile(P3_COLORANTS, 2.2))
    assert psnr(pixels(convert_image(data, RAW)), np.asarray(muted)) >= 35


@pytest.mark.usefixtures("heif")
def test_a_heic_file_is_kept_as_png_and_a_damaged_one_is_rejected():
    data = encoded(detailed(90, 120), "HEIF")
    made = convert_image(data, KEEP)
    assert (made.format, made.replaced_format) == ("png", "heic")
    assert convert_image(data, dataclasses.replace(KEEP, keep_any_format=True)).data is data
    for end in range(20, len(data), len(data) // 40):
        with pytest.raises(SampleError) as rejected:
            convert_image(data[:end], RAW)
        assert rejected.value.reason in (FailureReason.TRUNCATED, FailureReason.CORRUPT)
    with pytest.raises(SampleError) as rejected:
        convert_image(data, dataclasses.replace(RAW, max_pixels=1000))
    assert rejected.value.reason is FailureReason.TOO_MANY_PIXELS
