"""`Sample`: what a function of the user sees, and how the mask and the objects move with the image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import Sample, SampleObjects
from tests.image_writers import png_file

_HEIGHT, _WIDTH = 24, 32


def drawn(boxes: list[tuple[int, int, int, int]]) -> Sample:
    """An image that is black but for its objects, each of a value of its own; later objects hide earlier ones."""
    mask = np.zeros((_HEIGHT, _WIDTH), np.uint8)
    for number, (left, top, right, bottom) in enumerate(boxes, 1):
        mask[top:bottom, left:right] = number
    corners = [np.array([(a, b), (c, b), (c, d), (a, d)], np.float32) for a, b, c, d in boxes]
    objects = SampleObjects(
        np.array(boxes, np.float64).reshape(-1, 4),
        list(range(1, len(boxes) + 1)),
        {"area": [(c - a) * (d - b) for a, b, c, d in boxes], "is_crowd": [0] * len(boxes)},
        [[outline] if number % 2 else draw(outline) for number, outline in enumerate(corners)],
        np.array([[(a, b, 2), (c, d, 1)] for a, b, c, d in boxes], np.float32).reshape(-1, 2, 3),
    )
    return Sample("a", image=np.dstack([mask * 10] * 3), mask=mask, objects=objects, label="Cat", split="train")


def draw(corners: np.ndarray) -> np.ndarray:
    mask = np.zeros((_HEIGHT, _WIDTH), np.uint8)
    (left, top), (right, bottom) = corners.astype(int)[0], corners.astype(int)[2]
    mask[top:bottom, left:right] = 1
    return mask


@st.composite
def boxes_in_image(draw: st.DrawFn) -> tuple[int, int, int, int]:
    left, right = sorted(draw(st.lists(st.integers(0, _WIDTH), min_size=2, max_size=2, unique=True)))
    top, bottom = sorted(draw(st.lists(st.integers(0, _HEIGHT), min_size=2, max_size=2, unique=True)))
    return left, top, right, bottom


@given(st.lists(boxes_in_image(), max_size=4), boxes_in_image(), st.integers(1, 3))
def test_a_crop_and_a_resize_move_all_that_is_drawn_on_the_image(boxes, part, factor):
    sample = drawn(boxes)
    left, top, right, bottom = part
    height, width = factor * (bottom - top), factor * (right - left)
    found = sample.crop(part).resize(height, width, resample="nearest")
    assert found.image.shape == (height, width, 3)
    assert np.array_equal(found.image[..., 0], found.mask * 10)
    expected = [
        (number, factor * np.clip(np.subtract(box, (left, top) * 2), 0, (right - left, bottom - top) * 2))
        for number, box in enumerate(boxes, 1)
    ]
    expected = [(number, box) for number, box in expected if box[0] < box[2] and box[1] < box[3]]
    assert list(found.objects.labels) == [number for number, _ in expected]
    assert np.array_equal(found.objects.boxes, np.array([box for _, box in expected]).reshape(-1, 4))
    sides = found.objects.boxes[:, 2:] - found.objects.boxes[:, :2]
    assert np.allclose(found.objects.values["area"], sides.prod(axis=1))
    for place, (number, box) in enumerate(expected):
        a, b, c, d = box
        outline = found.objects.outlines[place]
        if isinstance(outline, np.ndarray):
            assert np.array_equal(np.argwhere(outline), np.argwhere(draw_in(outline.shape, box)))
        else:
            whole = factor * (np.array(boxes[number - 1]) - (left, top) * 2)
            assert np.array_equal(outline[0][[0, 2]].ravel(), whole)
        first, second = found.objects.keypoints[place]
        is_first = boxes[number - 1][0] >= left and boxes[number - 1][1] >= top
        assert (tuple(first) == (a, b, 2)) if is_first else not first.any()
        is_second = boxes[number - 1][2] <= right and boxes[number - 1][3] <= bottom
        assert (tuple(second) == (c, d, 1)) if is_second else not second.any()


def draw_in(shape: tuple[int, int], box: np.ndarray) -> np.ndarray:
    mask = np.zeros(shape)
    left, top, right, bottom = box.astype(int)
    mask[top:bottom, left:right] = 1
    return mask


def test_a_crop_takes_every_pixel_that_its_box_touches():
    sample = drawn([])
    assert sample.crop((0.4, 1.9, 3.1, 4)).image.shape == (3, 4, 3)
    assert sample.crop((-5, -5, 100, 2)).image.shape == (2, _WIDTH, 3)
    for box in ((3, 3, 3, 9), (40, 0, 50, 9), (0, 0, float("nan"), 4)):
        with pytest.raises(ValueError, match="crop: the box"):
            sample.crop(box)


def test_an_invalid_box_stays_invalid():
    sample = drawn([]).replace(objects=SampleObjects(np.array([(4, 4, 4, 9), (0, 0, np.nan, 3)]), ["a", "b"]))
    boxes = sample.crop((2, 2, 20, 20)).objects.boxes
    assert tuple(boxes[0]) == (2, 2, 2, 7)
    assert np.isnan(boxes[1, 2])


def test_a_sample_is_read_only_but_by_replace():
    sample = drawn([(0, 0, 4, 4)])
    with pytest.raises(AttributeError, match=r"use `sample\.replace\(label=…\)`"):
        sample.label = "dog"
    with pytest.raises(ValueError, match="read-only"):
        sample.image[0] = 0
    changed = sample.replace(label="dog", columns={"x": 1})
    assert (changed.label, changed.columns, sample.label, changed.key) == ("dog", {"x": 1}, "Cat", "a")
    for name in ("key", "split", "size"):
        with pytest.raises(TypeError, match=f"`{name}` cannot be replaced; expected image"):
            sample.replace(**{name: "b"})


def test_images_are_made_once_when_they_are_asked_for(tmp_path):
    sample = Sample("a", images={"left": tmp_path / "left.png", "right": tmp_path / "right.png"})
    changed = sample.replace(label=1)
    for name in ("left", "right"):
        (tmp_path / f"{name}.png").write_bytes(png_file(np.zeros((2, 3, 3), np.uint8)))
    assert changed.image is sample.images["left"]
    assert sample.images["right"] is changed.images["right"]
    assert Sample("row").image is None


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"image": np.zeros((2, 2, 2, 2), np.uint8)}, r"image: found the shape \(2, 2, 2, 2\); expected \[H, W, C\]"),
        ({"image": np.zeros((0, 2, 3), np.uint8)}, "image: found the shape"),
        ({"image": np.zeros((2, 2, 3))}, "image: found an array of float64; expected uint8 or uint16 or float32"),
        ({"image": [[1]]}, "image: found list; expected a NumPy array"),
        ({"mask": np.zeros((2, 2, 3), np.uint8)}, r"mask: found the shape .*; expected \[H, W\]"),
    ],
)
def test_arrays_of_another_kind_are_refused(values, error):
    with pytest.raises((TypeError, ValueError), match=error):
        Sample("a").replace(**values)


def test_objects_have_a_value_each():
    with pytest.raises(ValueError, match="1 boxes for 2 labels"):
        SampleObjects(np.zeros((1, 4)), ["a", "b"])


def test_a_resize_beyond_the_most_pixels_is_refused_before_memory_is_taken():
    with pytest.raises(ValueError, match=r"resize: 1000000 x 1000000: expected .* at most 178,956,970 pixels"):
        drawn([]).resize(10**6, 10**6)


def test_a_row_without_an_image_has_none_to_crop():
    row = Sample("a", label="cat")
    assert row.image is None
    for change in (lambda: row.crop((0, 0, 1, 1)), lambda: row.resize(2, 2)):
        with pytest.raises(ValueError, match="a: found no image"):
            change()
    with pytest.raises(TypeError, match="not both"):
        row.replace(image=np.zeros((2, 2), np.uint8), images={})
