"""Annotated objects in cells of tables."""

from __future__ import annotations

import math

import pytest

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.sources.tables.object_cells import hold_objects, read_objects
from tests.each import each

BOXES = (1.0, 2.0, 31.0, 42.0, 5.0, 5.0, 6.0, 7.0)
PAIR = [[1, 2, 30, 40], [5.0, 5, 1, 2]]


@each("classes", ["categories", "category", "label", "labels"])
@each("box", ["bbox", "bboxes"])
def test_an_object_of_lists_and_a_list_of_objects_say_the_same(box, classes):
    as_lists = {box: PAIR, classes: [1, "dog"], "area": [7.5, 2], "iscrowd": [0, 1], "id": [8, 9]}
    as_objects = [
        {box: PAIR[0], classes: 1, "area": 7.5, "iscrowd": 0, "id": 8},
        {box: PAIR[1], classes: "dog", "area": 2, "iscrowd": 1, "id": 9},
    ]
    expected = Objects(BOXES, (1, "dog"), {"area": (7.5, 2), "is_crowd": (0, 1)})
    assert read_objects(as_lists) == read_objects(as_objects) == expected


def test_indices_are_classes_where_these_are_named():
    cell = {"bbox": PAIR * 2, "categories": [1, 0, 2, -1]}
    assert read_objects(cell, ["cat", "dog"]).labels == ("dog", "cat", 2, -1)


@pytest.mark.parametrize("cell", [None, [], {}, {"bbox": [], "categories": []}])
def test_an_image_may_have_no_objects(cell):
    assert read_objects(cell) == Objects()


def test_what_is_no_box_has_no_sides():
    sides = read_objects({"bbox": [[1, 2, 3], "1 2 3 4", [1, 2, True, 4], None], "categories": [1, 1, 1, 1]}).boxes
    assert len(sides) == 16
    assert all(map(math.isnan, sides))


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("[[1, 2, 3, 4]]", "expected an object with 'bbox' and 'categories'"),
        ([[1, 2, 3, 4]], "expected an object with 'bbox' and 'categories'"),
        ({"bbox": PAIR, "categories": [1]}, "lists of 1 and 2 elements"),
        ({"bbox": PAIR, "categories": [1, 2], "area": [3]}, "lists of 1 and 2 elements"),
    ],
)
def test_what_is_something_else_rejects_the_row(cell, says):
    with pytest.raises(SampleError, match=says) as error:
        read_objects(cell)
    assert error.value.reason is FailureReason.INVALID_ROW


def test_a_column_holds_objects_if_its_first_filled_cell_does():
    assert hold_objects([None, [], {"bbox": []}])
    assert not hold_objects([None, {"name": ["a"]}, {"bbox": PAIR}])
    assert not hold_objects(["3 cats"])
