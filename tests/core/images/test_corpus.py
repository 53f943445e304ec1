"""Every unusual file is converted to what a viewer shows; every broken one is rejected with its reason."""

from __future__ import annotations

import contextlib
import dataclasses
import gc

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.images.convert_image import check_file, convert_image, read_header
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.images.masks import read_mask
from tests.core.images.corpus import corpus
from tests.each import each
from tests.image_checks import pixels, psnr

# Worker processes silence these warnings with `prepare_process`; pytest resets filters for each test.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def valid() -> list[str]:
    return [name for name, case in corpus().items() if case.reason is None]


def broken() -> list[str]:
    return [name for name, case in corpus().items() if case.reason is not None]


def spec_for(codec: Codec) -> ImageSpec:
    return ImageSpec(image_encoding=ImageEncoding.RAW, channels=None, codec=codec)


@each("codec", Codec)
@each("name", valid)
def test_an_unusual_file_is_converted_to_the_image_it_shows(name: str, codec: Codec) -> None:
    case = corpus()[name]
    converted = convert_image(case.data, spec_for(codec))
    seen = np.asarray(case.picture)
    assert psnr(pixels(converted), seen.reshape(*seen.shape[:2], -1)) >= 35


@each("name", valid)
def test_an_unusual_file_can_be_resized_and_stored(name: str) -> None:
    spec = ImageSpec(image_size=(20, 30), resize_mode=ResizeMode.EXACT)
    converted = convert_image(corpus()[name].data, spec)
    assert pixels(converted).shape == (20, 30, 3)


@each("name", valid)
def test_the_header_of_an_unusual_file_tells_what_decoding_it_does(name: str) -> None:
    data = corpus()[name].data
    spec = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
    checked = check_file(data, spec)
    assert checked.data is data
    # A header does not tell the values.
    assert dataclasses.replace(checked, stored_maximum=None) == read_header(data, spec)


@each("codec", Codec)
@each("name", broken)
def test_a_broken_file_is_rejected_with_its_reason(name: str, codec: Codec) -> None:
    case = corpus()[name]
    with pytest.raises(SampleError) as rejected:
        convert_image(case.data, spec_for(codec))
    assert rejected.value.reason is case.reason
    assert "\n" not in rejected.value.detail
    assert 0 < len(rejected.value.detail) <= 200


@each("name", broken)
def test_a_broken_file_is_not_kept(name: str) -> None:
    case = corpus()[name]
    with pytest.raises(SampleError) as rejected:
        convert_image(case.data, ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None))
    assert rejected.value.reason is case.reason


@pytest.mark.nightly
def test_no_image_is_left_in_memory_when_its_file_is_rejected() -> None:
    """Before the garbage collector comes: an image may be as large as all memory that a worker may take."""

    def count_images() -> int:
        return sum(isinstance(found, Image.Image) for found in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = count_images()
        for case in (corpus()[name] for name in broken()):
            for take in (
                lambda data: convert_image(data, spec_for(Codec.FAST)),
                lambda data: read_mask(data, ImageSpec()),
            ):
                with contextlib.suppress(SampleError):
                    take(case.data)
        assert count_images() == before
    finally:
        gc.enable()


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(corpus()) >= 60
