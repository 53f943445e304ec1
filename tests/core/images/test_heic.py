"""Without the extra `heif`, the failure of a HEIC file says how to install it."""

from __future__ import annotations

import sys

import pytest

from beam_tfrecords.errors import BuildError, FailureReason, SampleError
from beam_tfrecords.transforms import libraries
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from tests.image_writers import box

RAW = ImageSpec(image_encoding=ImageEncoding.RAW)
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)


def test_without_the_extra_the_failure_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    data = box(b"ftyp", b"heic\0\0\0\0mif1heic") + bytes(300)
    for spec in (RAW, KEEP):
        with pytest.raises(SampleError, match=r"pip install '\.\[heif\]'") as rejected:
            convert_image(data, spec)
        assert rejected.value.reason is FailureReason.UNSUPPORTED_FORMAT


def test_machines_with_and_without_the_extra_do_not_share_a_build(monkeypatch):
    here = {name: version for name, version in libraries.library_versions().items() if name != "pillow-heif"}
    for ours, theirs in (({}, {"pillow-heif": "1.1.0"}), ({"pillow-heif": "1.1.0"}, {})):
        monkeypatch.setattr(libraries, "library_versions", lambda ours=ours: {**here, **ours})
        with pytest.raises(BuildError, match=r"pillow-heif is .* on one, where the build was started"):
            libraries.check_libraries({**here, **theirs}, launcher="one")
        libraries.check_libraries({**here, **ours}, launcher="one")
