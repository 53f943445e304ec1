"""16 bits per channel: what a file has is stored, in every way that 8 bits are."""

from __future__ import annotations

import dataclasses
import io
import itertools
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, Resample, ResizeMode
from tests import tensorflow as tf
from tests.each import each
from tests.image_checks import detailed, encoded
from tests.image_writers import P3_COLORANTS, icc_profile, png_file, tiff_file
from tests.make_corpus import corpus

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


@each(
    "kind, channels",
    [*itertools.product(["tiff", "tiff with rows of LZW", "ppm"], [1, 3]), ("jpeg2000", 1)],
)
def test_every_bit_of_other_formats_is_stored(kind: str, channels: int) -> None:
    array = values(256, 256, channels)
    swapped = array if channels == 1 else cv2.cvtColor(array, cv2.COLOR_RGB2BGR)
    extension = {"jpeg2000": ".jp2", "ppm": ".ppm" if channels == 3 else ".pgm"}.get(kind, ".tiff")
    options = {
        "tiff": [cv2.IMWRITE_TIFF_COMPRESSION, 1],
        "tiff with rows of LZW": [cv2.IMWRITE_TIFF_COMPRESSION, 5],
        "jpeg2000": [cv2.IMWRITE_JPEG2000_COMPRESSION_X1000, 1000],
    }.get(kind, [])
    written, file = cv2.imencode(extension, swapped, options)
    assert written
    np.testing.assert_array_equal(read(convert_image(file.tobytes(), SIXTEEN_BIT)), array)


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


@each("mode", ResizeMode)
def test_a_resize_keeps_small_differences(mode: ResizeMode) -> None:
    array = np.full((60, 90, 3), (1000, 1001, 1002), np.uint16)
    made = convert_image(png_file(array), dataclasses.replace(SIXTEEN_BIT, image_size=(30, 30), resize_mode=mode))
    assert {tuple(pixel) for pixel in read(made).reshape(-1, 3)} - {(0, 0, 0)} == {(1000, 1001, 1002)}


def test_without_upscaling_a_small_image_stays() -> None:
    array = values(30, 50, 3)
    spec = dataclasses.replace(SIXTEEN_BIT, image_size=(90, 90), upscale=False)
    np.testing.assert_array_equal(read(convert_image(png_file(array), spec)), array)


@each("orientation", range(1, 9))
def test_images_are_stored_upright(orientation: int) -> None:
    array = values(30, 50, 3)
    upright = {
        1: array,
        2: array[:, ::-1],
        3: array[::-1, ::-1],
        4: array[::-1],
        5: array.transpose(1, 0, 2),
        6: np.rot90(array, -1),
        7: array[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(array),
    }[orientation]
    exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" + bytes([orientation]) + bytes(6)
    png = png_file(array, chunks=[(b"eXIf", exif)])
    np.testing.assert_array_equal(read(convert_image(png, SIXTEEN_BIT)), upright)
    ignoring = dataclasses.replace(SIXTEEN_BIT, orientation=Metadata.IGNORE)
    np.testing.assert_array_equal(read(convert_image(png, ignoring)), array)
    tags = {256: [50], 257: [30], 258: [16] * 3, 259: [1], 262: [2], 274: [orientation], 277: [3], 278: [30]}
    np.testing.assert_array_equal(read(convert_image(tiff_file(tags, array.tobytes()), SIXTEEN_BIT)), upright)


def test_12_bits_are_stored_as_they_are() -> None:
    array = values(30, 50, 1) >> 4
    assert array.max() < 4096
    np.testing.assert_array_equal(read(convert_image(png_file(array), SIXTEEN_BIT)), array)


def test_8_bits_are_multiplied() -> None:
    array = (values(30, 50, 3) >> 8).astype(np.uint8)
    np.testing.assert_array_equal(read(convert_image(png_file(array), SIXTEEN_BIT)), array.astype(int) * 257)


def test_transparency_is_blended_with_white_and_hides_colors() -> None:
    array = values(40, 40, 4)
    array[:, :20, 3], array[:, 20:, 3] = 0, 65535
    blended = read(convert_image(png_file(array), dataclasses.replace(SIXTEEN_BIT, channels=3)))
    assert (blended[:, :20] == 65535).all()
    np.testing.assert_array_equal(blended[:, 20:], array[:, 20:, :3])
    array[:, :20, :3], array[:, 20:, :3] = 65535, 300
    small = read(convert_image(png_file(array), dataclasses.replace(SIXTEEN_BIT, image_size=(10, 10))))
    assert np.abs(small[small[..., 3] > 256][:, :3].astype(int) - 300).max() <= 130


def test_a_key_of_transparency_is_compared_in_16_bits() -> None:
    array = np.full((4, 4, 1), 300, np.uint16)
    array[0] = 301
    made = read(convert_image(png_file(array, chunks=[(b"tRNS", struct.pack(">H", 301))]), SIXTEEN_BIT))
    assert (made[0, :, 3] == 0).all()
    assert (made[1:, :, 3] == 65535).all()


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


def test_16_bits_that_cannot_be_had_reject_the_sample() -> None:
    cmyk = values(30, 50, 4)
    tags = {256: [50], 257: [30], 258: [16] * 4, 259: [1], 262: [5], 277: [4], 278: [30]}
    data = tiff_file(tags, cmyk.tobytes())
    convert_image(data, EIGHT_BIT)
    with pytest.raises(SampleError, match="the 16 bits of this kind of TIFF cannot be decoded") as rejected:
        convert_image(data, SIXTEEN_BIT)
    assert rejected.value.reason is FailureReason.UNSUPPORTED_MODE


def test_damage_has_its_reason() -> None:
    data = png_file(values(30, 50, 3))
    for broken, reason in (
        (data[:-500], FailureReason.TRUNCATED),
        (data[:90] + b"x" + data[91:], FailureReason.CORRUPT),
    ):
        with pytest.raises(SampleError) as rejected:
            convert_image(broken, SIXTEEN_BIT)
        assert rejected.value.reason is reason


def test_a_jpeg_is_stored_in_16_bits_too() -> None:
    made = read(convert_image(encoded(detailed(30, 50), "JPEG"), SIXTEEN_BIT))
    assert (made % 257 == 0).all()
