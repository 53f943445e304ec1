"""No channel of a TIFF is replaced by a constant: it is stored, left out and counted, or rejects the file."""

from __future__ import annotations

import dataclasses
import itertools
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.images.masks import convert_mask
from tests.each import each
from tests.image_checks import detailed, pixels
from tests.image_writers import tiff_file

HEIGHT, WIDTH = 14, 19
GREY, RGB, CMYK = 1, 2, 5
UNSPECIFIED, ASSOCIATED, UNASSOCIATED = 0, 1, 2
RAW = ImageSpec(image_encoding=ImageEncoding.RAW)
DEEP = ImageSpec(image_encoding=ImageEncoding.PNG, bit_depth=16)
# How the numbers of a file may be stored: bits, apart, big-endian, deflated.
STORED = list(itertools.product((8, 16), (False, True), (False, True), (False, True)))


def tiff(
    samples: np.ndarray, photometric: int, extra: list[int] | None, bits: int, apart: bool, big: bool, deflated: bool
) -> bytes:
    """The file of [H, W, C] samples."""
    height, width, channels = samples.shape
    stored = samples.astype(f"{'>' if big else '<'}u{bits // 8}")
    strips = [stored[..., channel].tobytes() for channel in range(channels)] if apart else [stored.tobytes()]
    if deflated:
        strips = [zlib.compress(strip) for strip in strips]
    length = max(map(len, strips))
    tags = {256: [width], 257: [height], 258: [bits] * channels, 259: [8 if deflated else 1], 262: [photometric]}
    tags |= {277: [channels], 278: [height], 284: [1 + apart]}
    if extra is not None:
        tags[338] = extra
    pixels = b"".join(strip.ljust(length, b"\0") for strip in strips)
    return tiff_file(tags, pixels, strips=len(strips), is_big_endian=big)


def random_samples(channels: int, bits: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << bits, (HEIGHT, WIDTH, channels))


def of_8_bits(samples: np.ndarray, bits: int) -> np.ndarray:
    return samples >> (bits - 8)


def deep_pixels(data: bytes) -> np.ndarray:
    stored = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    return cv2.cvtColor(stored, cv2.COLOR_BGRA2RGBA if stored.shape[2] == 4 else cv2.COLOR_BGR2RGB)


def reason_of(data: bytes, spec: ImageSpec) -> FailureReason | None:
    try:
        convert_image(data, spec)
    except SampleError as error:
        return error.reason
    return None


@each("bits, apart, big, deflated", STORED)
def test_a_fourth_channel_that_is_no_transparency_is_stored_or_counted(bits, apart, big, deflated):
    samples = random_samples(4, bits)
    data = tiff(samples, RGB, [UNSPECIFIED], bits, apart, big, deflated)
    for codec, channels in itertools.product(Codec, (4, None)):
        made = convert_image(data, dataclasses.replace(RAW, codec=codec, channels=channels))
        np.testing.assert_array_equal(pixels(made), of_8_bits(samples, bits))
        assert made.channels_left_out is None
    made = convert_image(data, RAW)
    np.testing.assert_array_equal(pixels(made), of_8_bits(samples[..., :3], bits))
    assert made.channels_left_out == 1
    for encoding in (ImageEncoding.JPEG, ImageEncoding.WEBP):
        made = convert_image(data, ImageSpec(image_encoding=encoding, channels=None))
        assert (made.channels, made.channels_left_out) == (3, 1)
    assert reason_of(data, ImageSpec(image_encoding=ImageEncoding.WEBP, channels=4)) is FailureReason.UNSUPPORTED_MODE
    kept = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
    assert convert_image(data, kept).channels == 4
    made = convert_image(data, dataclasses.replace(kept, keep_any_format=True))
    assert (made.data is data, made.channels, made.channels_left_out) == (True, 4, None)


@each("bits, apart, big, deflated", STORED)
def test_a_fourth_channel_is_stored_in_16_bits_or_the_file_is_rejected(bits, apart, big, deflated):
    samples = random_samples(4, bits)
    data = tiff(samples, RGB, [UNSPECIFIED], bits, apart, big, deflated)
    for channels in (4, 3, None):
        spec = dataclasses.replace(DEEP, channels=channels)
        if bits == 16 and apart:
            assert reason_of(data, spec) is FailureReason.UNSUPPORTED_MODE
            continue
        made = convert_image(data, spec)
        expected = samples[..., : channels or 4] * (257 if bits == 8 else 1)
        np.testing.assert_array_equal(deep_pixels(made.data), expected)
        assert made.channels_left_out == (1 if channels == 3 else None)


@each("spec", [RAW, DEEP], ids=["8 bits", "16 bits"])
@each("codec", Codec)
def test_it_weighs_no_color_and_is_resized_like_any(codec, spec):
    """Where near infrared is 0, red stays."""
    samples = np.dstack([np.asarray(detailed(HEIGHT * 8, WIDTH * 8)), np.zeros((HEIGHT * 8, WIDTH * 8), np.uint8)])
    samples[:, 40:, 3] = 200
    data = tiff(samples, RGB, [UNSPECIFIED], 8, False, False, False)
    spec = dataclasses.replace(spec, codec=codec, channels=4, image_size=(20, 30), resize_mode=ResizeMode.EXACT)
    made = convert_image(data, spec)
    seen = pixels(made) if spec.bit_depth == 8 else deep_pixels(made.data) // 257
    planes = [Image.fromarray(np.ascontiguousarray(samples[..., channel])) for channel in range(4)]
    expected = np.dstack([np.asarray(plane.resize((30, 20), Image.Resampling.BICUBIC)) for plane in planes])
    assert np.abs(seen.astype(int) - expected).max() <= 1


@each("apart, big, deflated", list(itertools.product((False, True), repeat=3)))
@each("bits", [8, 16])
@each("extra", [None, [UNASSOCIATED], [ASSOCIATED]])
def test_transparency_is_read_in_every_order(extra, bits, apart, big, deflated):
    samples = random_samples(4, bits)
    if extra == [ASSOCIATED]:
        samples[..., :3] = samples[..., :3] * samples[..., 3:] // ((1 << bits) - 1)
    data, spec = tiff(samples, RGB, extra, bits, apart, big, deflated), dataclasses.replace(RAW, channels=4)
    if extra is None and apart and deflated:  # libtiff takes it for something else
        assert reason_of(data, spec) is FailureReason.UNSUPPORTED_MODE
        return
    made = convert_image(data, spec)
    assert made.channels_left_out is None
    expected = of_8_bits(samples, bits)
    np.testing.assert_array_equal(pixels(made)[..., 3], expected[..., 3])
    if extra == [ASSOCIATED]:
        weighed = pixels(made)[..., :3] * (expected[..., 3:] / 255)
        opaque = pixels(made)[..., :3] < 255
        assert np.abs(weighed - expected[..., :3])[opaque].max() <= 2
    else:
        np.testing.assert_array_equal(pixels(made), expected)


@each("big, deflated", list(itertools.product((False, True), repeat=2)))
@each("extra", [None, [UNASSOCIATED], [ASSOCIATED]])
def test_grey_with_transparency_is_read(extra, big, deflated):
    samples = random_samples(2, 8)
    samples[..., 1] |= 128
    if extra == [ASSOCIATED]:
        samples[..., 0] = samples[..., 0] * samples[..., 1] // 255
    seen = pixels(
        convert_image(tiff(samples, GREY, extra, 8, False, big, deflated), dataclasses.replace(RAW, channels=4))
    )
    np.testing.assert_array_equal(seen[..., 3], samples[..., 1])
    assert (seen[..., :3] == seen[..., :1]).all()
    weight = samples[..., 1] / 255 if extra == [ASSOCIATED] else 1
    assert np.abs(seen[..., 0] * weight - samples[..., 0]).max() <= 1


@each("photometric, channels, extra", [(RGB, 5, [0, 0]), (RGB, 6, [0, 0, 0]), (CMYK, 5, [0]), (CMYK, 6, [0, 0])])
def test_several_other_channels_are_counted_and_no_fourth_is_made_up(photometric, channels, extra):
    data = tiff(random_samples(channels, 8), photometric, extra, 8, False, False, False)
    for wanted in (1, 3, None):
        made = convert_image(data, dataclasses.replace(RAW, channels=wanted))
        assert (made.channels, made.channels_left_out) == (wanted or 3, len(extra))
    assert reason_of(data, dataclasses.replace(RAW, channels=4)) is FailureReason.UNSUPPORTED_MODE


@each("bits, apart, big, deflated", STORED)
@each(
    "photometric, extra",
    [
        (GREY, [UNSPECIFIED]),
        (GREY, [UNSPECIFIED] * 3),
        (GREY, [UNASSOCIATED, UNSPECIFIED]),
        (GREY, [UNSPECIFIED] * 11),
        (RGB, [UNSPECIFIED] * 9),
        (RGB, [UNASSOCIATED] + [UNSPECIFIED] * 8),
    ],
)
def test_other_kinds_are_unsupported_and_not_corrupt(photometric, extra, bits, apart, big, deflated):
    samples = random_samples(len(extra) + (3 if photometric == RGB else 1), bits)
    data = tiff(samples, photometric, extra, bits, apart, big, deflated)
    for spec in (RAW, dataclasses.replace(RAW, channels=4), DEEP):
        assert reason_of(data, spec) is FailureReason.UNSUPPORTED_MODE


def test_no_mask_is_one_channel_of_several():
    data = tiff(random_samples(5, 8), RGB, [UNSPECIFIED] * 2, 8, False, False, False)
    with pytest.raises(SampleError) as rejected:
        convert_mask(data, Geometry.unchanged(HEIGHT, WIDTH), ImageSpec())
    assert rejected.value.reason is FailureReason.INVALID_MASK
