"""Every kind of unusual file ends as a person sees it, every kind of broken one with its reason."""

from __future__ import annotations

import numpy as np
import pytest

from tests.image_checks import pixels, psnr
from tests.make_corpus import corpus
from transforms.errors import SampleError
from transforms.images.convert import convert_image
from transforms.images.spec import Check, Codec, ImageEncoding, ImageSpec, ResizeMode

# Pillow warns of what it reads on; outside of pytest the decoder keeps that to itself.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

CORPUS = corpus()
VALID = [name for name, case in CORPUS.items() if case.reason is None]
BROKEN = [name for name, case in CORPUS.items() if case.reason is not None]


def spec_for(codec: Codec) -> ImageSpec:
    return ImageSpec(encoding=ImageEncoding.RAW, channels=None, codec=codec)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", VALID)
def test_an_unusual_file_shows_the_picture_that_it_was_made_from(name: str, codec: Codec) -> None:
    case = CORPUS[name]
    converted = convert_image(case.data, spec_for(codec))
    seen = np.asarray(case.picture)
    assert psnr(pixels(converted), seen.reshape(*seen.shape[:2], -1)) >= 35


@pytest.mark.parametrize("name", VALID)
def test_an_unusual_file_can_be_resized_and_stored(name: str) -> None:
    spec = ImageSpec(size=(20, 30), resize_mode=ResizeMode.EXACT)
    converted = convert_image(CORPUS[name].data, spec)
    assert pixels(converted).shape == (20, 30, 3)


@pytest.mark.parametrize("name", VALID)
def test_an_unusual_file_is_kept_byte_for_byte(name: str) -> None:
    data = CORPUS[name].data
    converted = convert_image(data, ImageSpec(encoding=ImageEncoding.KEEP, channels=None))
    assert converted.data is data
    header_alone = ImageSpec(encoding=ImageEncoding.KEEP, channels=None, check=Check.HEADER)
    assert converted == convert_image(data, header_alone)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_its_reason(name: str, codec: Codec) -> None:
    case = CORPUS[name]
    with pytest.raises(SampleError) as refused:
        convert_image(case.data, spec_for(codec))
    assert refused.value.reason is case.reason
    assert "\n" not in refused.value.detail
    assert 0 < len(refused.value.detail) <= 200


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_not_kept(name: str) -> None:
    case = CORPUS[name]
    with pytest.raises(SampleError) as refused:
        convert_image(case.data, ImageSpec(encoding=ImageEncoding.KEEP, channels=None))
    assert refused.value.reason is case.reason


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(CORPUS) >= 60
