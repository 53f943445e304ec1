"""TensorFlow reads whatever `image_encoding=keep` stores, as the file shows it."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from beam_tfrecords.transforms.images.convert_image import convert_image, is_of_kept_kind
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from tests import tensorflow as tf
from tests.core.images.corpus import corpus
from tests.core.images.fuzz_images import seed_files
from tests.each import each
from tests.image_checks import pixels

pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore::UserWarning:PIL")]
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
LOSSLESS = ImageSpec(image_encoding=ImageEncoding.PNG, channels=None)


@functools.cache
def files() -> dict[str, bytes]:
    return {name: case.data for name, case in corpus().items() if case.reason is None} | seed_files()


@functools.cache
def kept(name: str) -> ConvertedImage:
    return convert_image(files()[name], KEEP)


@functools.cache
def shown(name: str) -> np.ndarray:
    """[H, W, C] uint8 as a lossless image of the file has it."""
    return pixels(convert_image(files()[name], LOSSLESS))


def decoded(image: ConvertedImage) -> np.ndarray:
    """[H, W, C] uint8 as TensorFlow decodes it."""
    return tf.io.decode_image(image.data, expand_animations=False).numpy()


@each("name", files)
def test_tensorflow_decodes_whatever_keep_stores_with_its_height_and_width(name: str) -> None:
    image = kept(name)
    assert decoded(image).shape[:2] == (image.height, image.width)


@each("name", files)
def test_a_file_is_either_kept_or_replaced_by_a_lossless_png_of_what_it_shows(name: str) -> None:
    data, image = files()[name], kept(name)
    if is_of_kept_kind(data, sniff(data)):
        assert image.data is data
        assert image.replaced_format is None
        return
    assert (image.format, image.replaced_format) == ("png", sniff(data))
    np.testing.assert_array_equal(pixels(image), shown(name))


@each(
    "name",
    ["progressive.jpg", "grey.jpg", "rgb_not_ycbcr.jpg", "multi_picture.mpo", "interlaced.png", "rgb_16_bit.png",
     "animated.png"],
)  # fmt: skip
def test_the_usual_kinds_are_kept(name: str) -> None:
    assert kept(name).data is files()[name]


@each("name", ["cmyk_adobe_inverted.jpg", "ycck_adobe_inverted.jpg", "arithmetic.jpg", "still.gif", "plain.bmp"])
def test_others_are_replaced(name: str) -> None:
    assert kept(name).replaced_format == sniff(files()[name])
