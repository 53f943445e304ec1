"""16 bits per channel: what a file has is stored, in every way that 8 bits are."""

from __future__ import annotations

import dataclasses
import io
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, Resample, ResizeMode
from tests import tensorflow as tf
from tests.core.images.corpus import corpus
from tests.each import each
from tests.image_checks import detailed
from tests.image_writers import P3_COLORANTS, icc_profile, png_file

pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore::UserWarning:PIL")]
SIXTEEN_BIT = ImageSpec(image_encoding=ImageEncoding.PNG, bit_depth=16, channels=None)
EIGHT_BIT = dataclasses.replace(SIXTEEN_BIT, bit_depth=8, codec=Codec.EXACT)


def valid() -> list[str]:
    return [name for name, case in corpus().items() if case.reason is None]


def values(height: int, width: int, channels: int) -> np.ndarray:
    """[H, W, C] uint16: a picture, and noise in the bits that 8 bits do not have."""
    rng = np.random.default_rng(0)
    planes = [np.asarray(detailed(height, width, seed)) for seed in (0, 1)]
    upper = np.concatenate(planes, axis=2)[..., :channels].astype(np.uint16) << 8
    return upper | rng.integers(0, 256, upper.shape, dtype=np.uint16)


def read(image: ConvertedImage) -> np.ndarray:
    """[H, W, C] uint16, as TensorFlow reads it."""
    assert (image.format, image.data[24]) == ("png", 16)
    found = tf.io.decode_png(image.data, dtype=tf.uint16).numpy()
    assert found.shape == (image.height, image.width, image.channels)
    return found


@each("channels", [1, 3, 4])
def test_every_bit_of_a_png_is_stored(channels: int) -> None:
    array = values(30, 50, channels)
    np.testing.assert_array_equal(read(convert_image(png_file(array), SIXTEEN_BIT)), array)


@each("channels", [1, 3, 4])
@each("name", valid)
def test_the_image_is_that_of_8_bits(name: str, channels: int) -> None:
    stored = read(convert_image(corpus()[name].data, dataclasses.replace(SIXTEEN_BIT, channels=channels)))
    made = convert_image(corpus()[name].data, dataclasses.replace(EIGHT_BIT, channels=channels))
    with Image.open(io.BytesIO(made.data)) as image:
        expected = np.asarray(image).reshape(stored.shape)
    difference = np.abs(np.round(stored / 257) - expected)
    visible = expected[..., 3] > 8 if channels == 4 else np.ones(stored.shape[:2], bool)
    assert difference[visible].max(initial=0) <= 1


@each("resample", Resample)
@each("mode", ResizeMode)
@each("channels", [1, 3, 4])
def test_every_resize_is_that_of_8_bits(channels: int, mode: ResizeMode, resample: Resample) -> None:
    array = values(60, 90, channels)
    words = {"image_size": (40, 30), "resize_mode": mode, "resample": resample}
    stored = read(convert_image(png_file(array), dataclasses.replace(SIXTEEN_BIT, **words)))
    made = convert_image(png_file((array >> 8).astype(np.uint8)), dataclasses.replace(EIGHT_BIT, **words))
    with Image.open(io.BytesIO(made.data)) as image:
        expected = np.asarray(image).reshape(stored.shape)
    # The 8 bits are cut off, not rounded; where an image is transparent, they say little of a color.
    visible = expected[..., 3] >= 128 if channels == 4 else np.ones(stored.shape[:2], bool)
    assert np.abs((stored >> 8).astype(int) - expected)[visible].max() <= 3
    if resample is Resample.NEAREST and mode is ResizeMode.EXACT:
        assert set(stored.ravel()) <= set(array.ravel())


def test_a_profile_that_cannot_be_applied_rejects_the_sample_with_a_way_out() -> None:
    array = values(30, 50, 3)
    wide = icc_profile(P3_COLORANTS, 2.2)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()

    def with_profile(profile: bytes) -> bytes:
        body = b"p\0\0" + zlib.compress(profile)
        return png_file(array, chunks=[(b"iCCP", body)])

    with pytest.raises(SampleError, match="`color_profile=ignore` stores the numbers as they are") as rejected:
        convert_image(with_profile(wide), SIXTEEN_BIT)
    assert rejected.value.reason is FailureReason.UNSUPPORTED_MODE
    ignoring = dataclasses.replace(SIXTEEN_BIT, color_profile=Metadata.IGNORE)
    np.testing.assert_array_equal(read(convert_image(with_profile(wide), ignoring)), array)
    np.testing.assert_array_equal(read(convert_image(with_profile(srgb), SIXTEEN_BIT)), array)
