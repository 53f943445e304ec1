"""Damage that libtiff reports rejects the sample, by its name; nothing is printed."""

from __future__ import annotations

import pytest

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from tests.each import each
from tests.image_checks import detailed, encoded

SPECS = [ImageSpec(), ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)]


@each("spec", SPECS, ids=["jpeg", "keep"])
@each(
    "compression, detail",
    [
        ("tiff_lzw", "Using code not yet in table"),
        # Pillow gives pixels for it, which are not the file's.
        ("jpeg", "Unsupported marker type"),
    ],
)
def test_what_libtiff_reports_is_the_detail(
    compression: str, detail: str, spec: ImageSpec, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = encoded(detailed(90, 120), "TIFF", compression=compression)
    convert_image(whole, spec)
    middle = len(whole) // 2
    with pytest.raises(SampleError, match=detail) as rejected:
        convert_image(whole[:middle] + b"\xff" * 40 + whole[middle + 40 :], spec)
    assert rejected.value.reason is FailureReason.CORRUPT
    convert_image(whole, spec)  # what was heard of another file is forgotten
    assert capfd.readouterr().err == ""
