"""JPEG 2000 of more than 8 bits per channel: Pillow 12 turns its white to black."""

from __future__ import annotations

import base64
import io

import cv2
import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from tests.each import each

# 8 x 8, 12 bits, without loss: this row in red and blue, 4095 minus it in green.
ROW_OF_12_BITS = (0, 2047, 4000, 4087, 4088, 4095, 9, 4095)
OF_12_BITS = base64.b85decode(
    b"|4;u>051Rl000080000800000000000000800008000000000000RpF0Sf^E3jqQDQUDA90003200aa80smY81VCW_WB?@q0Yh?SVRU6=AYy"
    b"qSPjF>!N>D{dAa-SPb7^mGATlmBE;Rp;015yA0001m00IA#zyd%KP*k7a;M5Ube>hhV;%5T%qrm(BF-;bz3y>)6FJZ>lwYAiR!|Fud1R`+yk"
    b"vD+_u5!5UzF8e`Zur07;M5Ube>hhV;%5T%qrm(BF-;bz3y>)6FJZ>lwYAiR!|Fud1R`+ykvD+_u5!5UzF8e`Zur0d*#"
)


def read(data: bytes, channels: int | None) -> np.ndarray:
    """[H, W, C] uint8, as it is stored."""
    image = convert_image(data, ImageSpec(image_encoding=ImageEncoding.PNG, channels=channels))
    with Image.open(io.BytesIO(image.data)) as stored:
        return np.asarray(stored)


@each("channels", [3, 4])
def test_white_of_16_bits_is_white(channels: int) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 16, (64, 64, channels), np.uint16)
    values[:8], values[8:16, :, :3] = 65535, (65407, 65408, 0)
    options = [cv2.IMWRITE_JPEG2000_COMPRESSION_X1000, 1000]
    swapped = cv2.cvtColor(values, cv2.COLOR_RGB2BGR if channels == 3 else cv2.COLOR_RGBA2BGRA)
    written, file = cv2.imencode(".jp2", swapped, options)
    assert written
    expected = np.minimum((values.astype(int) + 128) >> 8, 255)
    np.testing.assert_array_equal(read(file.tobytes(), channels), expected)


def test_white_of_12_bits_is_white() -> None:
    row = np.array(ROW_OF_12_BITS)
    values = np.tile(np.stack([row, 4095 - row, row], axis=1), (8, 1, 1))
    np.testing.assert_array_equal(read(OF_12_BITS, 3), np.minimum((values + 8) >> 4, 255))


def test_what_cannot_be_corrected_is_rejected() -> None:
    # The first channel has 11 bits, by the header: what OpenCV reads is another picture.
    start = OF_12_BITS.index(b"\xff\x4f\xff\x51")
    data = OF_12_BITS[: start + 42] + b"\x0a" + OF_12_BITS[start + 43 :]
    with pytest.raises(SampleError, match="the 11 bits of this kind of JPEG2000 cannot be decoded") as rejected:
        read(data, 3)
    assert rejected.value.reason is FailureReason.UNSUPPORTED_MODE
