"""Polygons of objects: packed into few bytes, and read as pycocotools reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco

from beam_tfrecords.transforms.objects.polygons import RunLengths, pack_polygons, pack_segmentation, unpack_polygons
from tests.each import each


@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 12), st.randoms(use_true_random=False))
def test_run_lengths_are_the_masks_that_pycocotools_encodes(height, width, grain, random):
    cells = [[random.random() < 0.5 for _ in range(-(-width // grain))] for _ in range(-(-height // grain))]
    mask = np.kron(np.array(cells, np.uint8), np.ones((grain, grain), np.uint8))[:height, :width]
    compressed = coco.encode(np.asfortranarray(mask))
    counts = np.diff(np.flatnonzero(np.diff(mask.T.ravel(), prepend=0, append=2)), prepend=0).tolist()
    for segmentation in (
        {"size": [height, width], "counts": compressed["counts"].decode()},
        {"size": [height, width], "counts": counts if sum(counts) == mask.size else [0, mask.size]},
    ):
        packed = pack_segmentation(segmentation)
        assert len(packed) < 30 + 3 * len(segmentation["counts"])
        polygons = unpack_polygons(packed)
        assert isinstance(polygons, RunLengths)
        np.testing.assert_array_equal(polygons.mask(), mask)


def test_polygons_have_4_bytes_a_coordinate():
    packed = pack_segmentation([[0, 0, 640.25, 0, 640.25, 480], [1.5, 2, 3, 4, 5, 6, 7, 8.125]])
    assert len(packed) == 14 * 4 + 5
    first, second = unpack_polygons(packed)
    assert first.tolist() == [[0, 0], [640.25, 0], [640.25, 480]]
    assert second.tolist() == [[1.5, 2], [3, 4], [5, 6], [7, 8.125]]


@pytest.mark.parametrize("segmentation", [None, [], [[]], [[1, 2, 3, 4]]])
def test_polygons_without_area_have_no_pixels(segmentation):
    assert unpack_polygons(pack_segmentation(segmentation)) == []


UNREADABLE: dict[str, Any] = {
    "text": "polygon",
    "a flat list": [1, 2, 3, 4, 5, 6],
    "words": [["1", "2", "3", "4", "5", "6"]],
    "an odd number": [[1, 2, 3, 4, 5, 6, 7]],
    "not a number": [[1, 2, 3, 4, 5, float("nan")]],
    "too large": [[1, 2, 3, 4, 5, 10**400]],
    "infinite": [[1, 2, 3, 4, 5, 1e300]],
    "no size": {"counts": [0, 4]},
    "no counts": {"size": [2, 2]},
    "another size": {"size": [2, 2], "counts": [0, 5]},
    "negative": {"size": [2, 2], "counts": [8, -4]},
    "fractions": {"size": [2, 2], "counts": [0.0, 4.0]},
    "an end that is missing": {"size": [2, 2], "counts": "0P"},
    "other letters": {"size": [2, 2], "counts": "é\ud800"},
    "a long run": {"size": [2, 2], "counts": "oooooooooooooooo0"},
    "nothing": {"size": [2, 2], "counts": ""},
    "a surrogate": "\ud800",
}


@each("segmentation", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_said_when_it_is_unpacked(segmentation):
    packed = pack_segmentation(segmentation)
    with pytest.raises(ValueError, match=r"expected polygons|run lengths|a run that is too long|not finite|surrogate"):
        unpack_polygons(packed)


def test_polygons_that_are_no_numbers_are_refused_where_they_are_packed():
    with pytest.raises(TypeError):
        pack_polygons([["a"]])  # type: ignore[list-item]
