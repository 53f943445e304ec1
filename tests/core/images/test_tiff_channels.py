"""A TIFF is read with its transparency, or rejected: no channel is left out or replaced by a constant."""

from __future__ import annotations

import dataclasses
import itertools
import zlib

import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from tests.each import each
from tests.image_writers import tiff_file

HEIGHT, WIDTH = 14, 19
GREY, RGB, CMYK = 1, 2, 5
UNSPECIFIED, ASSOCIATED, UNASSOCIATED = 0, 1, 2
RAW = ImageSpec(image_encoding=ImageEncoding.RAW, channels=4)
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
# How the numbers of a file may be stored: bits, big-endian, deflated.
STORED = list(itertools.product((8, 16), (False, True), (False, True)))


def tiff(samples: np.ndarray, photometric: int, extra: list[int] | None, bits: int, big: bool, deflated: bool) -> bytes:
    """The file of [H, W, C] samples."""
    height, width, channels = samples.shape
    stored = samples.astype(f"{'>' if big else '<'}u{bits // 8}").tobytes()
    tags = {256: [width], 257: [height], 258: [bits] * channels, 259: [8 if deflated else 1], 262: [photometric]}
    tags |= {277: [channels], 278: [height]}
    if extra is not None:
        tags[338] = extra
    return tiff_file(tags, zlib.compress(stored) if deflated else stored, is_big_endian=big)


def random_samples(channels: int, bits: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 1 << bits, (HEIGHT, WIDTH, channels))


def reason_of(data: bytes, spec: ImageSpec) -> FailureReason | None:
    try:
        convert_image(data, spec)
    except SampleError as error:
        return error.reason
    return None


@each("bits, big, deflated", STORED)
@each(
    "photometric, extra",
    [
        (GREY, [UNSPECIFIED]),
        (GREY, [UNSPECIFIED] * 11),
        (GREY, [UNASSOCIATED, UNSPECIFIED]),
        (GREY, [ASSOCIATED]),
        (RGB, [UNSPECIFIED]),
        (RGB, [UNSPECIFIED] * 2),
        (RGB, [UNASSOCIATED, UNSPECIFIED]),
        (RGB, [ASSOCIATED]),
        (CMYK, [UNSPECIFIED]),
    ],
)
def test_other_channels_and_premultiplied_colors_are_unsupported(photometric, extra, bits, big, deflated):
    samples = random_samples(len(extra) + {GREY: 1, RGB: 3, CMYK: 4}[photometric], bits)
    data = tiff(samples, photometric, extra, bits, big, deflated)
    deep = dataclasses.replace(RAW, image_encoding=ImageEncoding.PNG, bit_depth=16)
    for spec in (RAW, dataclasses.replace(RAW, channels=3), deep, KEEP):
        assert reason_of(data, spec) is FailureReason.UNSUPPORTED_MODE
