"""The size of an image when it is read: as people write it, and where its pixels end up, as in a build."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.geometry.sizes import ResizeMode, read_image_size
from beam_tfrecords.reading.resizing import Resize, resize_pixels
from beam_tfrecords.transforms.images import image_spec
from beam_tfrecords.transforms.images.orient import plan_geometry
from tests import tensorflow as tf
from tests.each import each

pytestmark = pytest.mark.tensorflow

MODES = ResizeMode.__args__
SIDE = st.integers(1, 5000)


@given(SIDE, SIDE, SIDE, SIDE, st.sampled_from(MODES))
def test_sizes_are_those_of_a_build(height, width, target_height, target_width, mode):
    from beam_tfrecords.reading.tf_examples import TensorPlacement  # It imports TensorFlow.

    size = target_height, target_width
    spec = image_spec.ImageSpec(image_size=size, resize_mode=image_spec.ResizeMode(mode), max_pixels=1 << 60)
    planned = plan_geometry(height, width, orientation=1, spec=spec)
    placed = Resize(size, mode).place(height, width)
    assert placed.resized == planned.resized
    assert placed.final == planned.final
    assert placed.offset == planned.offset
    theirs = TensorPlacement.of(tf.broadcast_to(np.uint8(0), (height, width, 0)), Resize(size, mode))
    assert tuple(map(int, theirs.resized)) == placed.resized
    assert tuple(map(int, theirs.final)) == placed.final


@each("dtype", [np.uint8, np.uint16])
@each("channels", [1, 3, 4])
@each("mode", MODES)
def test_every_kind_of_pixels_is_resized(mode, channels, dtype):
    random = np.random.default_rng(1)
    for _ in range(50):
        height, width, *size = random.integers(1, 90, 4).tolist()
        pixels = np.full((height, width, channels), 200, dtype)
        placed = Resize(tuple(size), mode).place(height, width)
        image = resize_pixels(pixels, placed)
        assert (image.shape, image.dtype) == ((*placed.final, channels), dtype)
        # A color stays what it is, and the canvas is black.
        assert set(np.unique(image)) <= {0, 200}
        assert (image == 200).sum() == np.minimum(placed.resized, placed.final).prod() * channels


ONE_SIZE, SIZES_DIFFER = StoredImages("jpeg", 3, (100, 100)), StoredImages("jpeg", 3, None)


def test_a_mode_is_asked_for_where_it_decides():
    for size, stored, found in (
        (223, SIZES_DIFFER, "may have different sizes"),
        ((30, 40), ONE_SIZE, "have 100 x 100 pixels"),
        ("30x40", ONE_SIZE, "have 100 x 100 pixels"),
    ):
        with pytest.raises(ValueError, match=f"stored images {found}, so say how .* 'shorter', the default of a"):
            Resize.of(size, None, stored)
    # Nothing is left out of a square.
    assert Resize.of((225, 225), None, ONE_SIZE) == Resize.of(225, None, ONE_SIZE) == Resize((225, 225), "crop")


@each("given", [20, (20, 50), [20, 50], "20", "20x50"])
def test_a_size_is_read_as_a_build_reads_it(given):
    height, width = read_image_size(given)
    assert Resize.of(given, "shorter", SIZES_DIFFER) == Resize((height, width), "shorter")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "crop"), "expected an image_size with it"),
        ((224, "squeeze"), "expected 'crop', 'pad'"),
        ((0, None), "in pixels, or one number"),
        (((1, 2, 3), None), "in pixels, or one number"),
        ((True, None), "in pixels, or one number"),
        (("224x", "crop"), "in pixels, or one number"),
        ((-3, "crop"), "in pixels, or one number"),
        ((2.5, None), "in pixels, or one number"),
    ],
)
def test_a_size_that_there_is_not_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Resize.of(*arguments, SIZES_DIFFER)
