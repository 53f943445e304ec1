"""Annotated objects in cells of tables."""

from __future__ import annotations

import json
import math

import pytest

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.objects.objects import BoxFormat, Objects
from beam_tfrecords.transforms.sources.detect.judge import describe_unused
from beam_tfrecords.transforms.sources.tables.object_cells import hold_objects, read_objects
from tests.each import each
from tests.refusals import refuses

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


SIDES = {
    "a corner and a size": ("x y width height", PAIR),
    "two corners": ("xmin ymin xmax ymax", [[1, 2, 31, 42], [5, 5, 6, 7]]),
}


@pytest.mark.parametrize("form", SIDES)
@pytest.mark.parametrize("write", [list, str, json.dumps], ids=["objects", "Python", "JSON"])
def test_objects_may_have_a_field_for_each_side_and_be_text(form, write):
    names, boxes = SIDES[form]
    cell = [
        {**dict(zip(names.split(), box, strict=True)), "label": name} for box, name in zip(boxes, "ab", strict=True)
    ]
    assert read_objects(write(cell)) == Objects(BOXES, ("a", "b"))


def test_boxes_without_classes_have_the_only_class(tmp_path, touch, opened):
    touch("7/0.jpg", "7/1.jpg")
    rows = ["video,frame,annotations", "7,0,\"[{'x': 1, 'y': 2, 'width': 30, 'height': 40}]\"", "7,1,[]"]
    (tmp_path / "m.csv").write_text("\n".join(rows))
    source = opened(tmp_path / "m.csv", image_path="{video}/{frame}.jpg", class_names=("starfish",), needs_label=False)
    first, second = source.samples()
    assert (first.objects.boxes, first.objects.labels) == ((1, 2, 31, 42), ("starfish",))
    assert (second.failure, second.objects.labels) == (None, ())


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


def rows(tmp_path, *cells):
    path = tmp_path / "m.jsonl"
    for number in range(len(cells)):
        (tmp_path / f"{number}.jpg").write_bytes(b"x")
    path.write_text("".join(json.dumps({"image": f"{number}.jpg", **cell}) + "\n" for number, cell in enumerate(cells)))
    return path


@each("boxes", ["bbox", "bboxes", "boxes"])
@each("classes", ["labels", "categories", "classes"])
def test_boxes_with_a_class_each_are_objects(tmp_path, opened, boxes, classes):
    cells = {boxes: PAIR, classes: ["cat", "dog"]}, {boxes: [], classes: []}
    source = opened(rows(tmp_path, *cells))
    first, second = (sample.objects for sample in source.samples())
    assert (tuple(first.boxes), first.labels, second.labels) == (BOXES, ("cat", "dog"), ())
    assert Content.OBJECTS in source.description.provides


@each("name", ["objects", "annotations", "instances"])
def test_objects_in_a_column_of_another_name_are_found(tmp_path, opened, name):
    source = opened(rows(tmp_path, {name: [{"bbox": PAIR[1], "category": "cat"}]}))
    assert [sample.objects.labels for sample in source.samples()] == [("cat",)]


def test_the_format_of_boxes_is_asked_where_two_are_possible(tmp_path, opened):
    path = rows(tmp_path, {"bboxes": [[1, 2, 30, 40]], "labels": ["cat"]})
    with refuses("unclear_box_format", "input") as refused:
        opened(path)
    forms = [one.settings["box_format"] for one in refused.value.suggestions]
    assert [tuple(next(opened(path, box_format=BoxFormat(form)).samples()).objects.boxes) for form in forms] == [
        (1, 2, 31, 42),
        (1, 2, 30, 40),
    ]


@each("boxes, size, form", [
    ([[[5, 5, 30, 40]], [[40, 2, 8, 30]]], {}, BoxFormat.SIZE),
    ([[[5, 5, 30, 40]], [[40, 2, 48, 30]]], {"width": 48, "height": 48}, BoxFormat.CORNERS),
    ([[[5, 5, 30, 40]], [[40, 2, 48, 30]]], {}, None),
    ([[[5, 5, 30, 40]], [[4, 2, 8, 30]]], {"width": 48, "height": 48}, None),
    ([[], []], {}, BoxFormat.SIZE),
])  # fmt: skip
@each("name", ["objects", "annotations"])
def test_the_boxes_of_objects_say_their_format_or_it_is_asked(tmp_path, opened, boxes, size, form, name):
    path = rows(tmp_path, *({name: {"bbox": found, "category": ["cat"] * len(found)}, **size} for found in boxes))
    if form is not None:
        assert next(opened(path).samples()).objects == next(opened(path, box_format=form).samples()).objects
        return
    with refuses("unclear_box_format", "input"):
        opened(path)


def test_boxes_as_shares_of_the_image_are_known_by_their_numbers(tmp_path, opened):
    path = rows(tmp_path, {"bboxes": [[0.5, 0.5, 0.25, 0.25]], "labels": ["cat"]})
    objects = next(opened(path).samples()).objects
    assert (tuple(objects.boxes), objects.is_normalized) == ((0.5, 0.5, 0.75, 0.75), True)


def test_boxes_without_a_class_each_are_named(tmp_path, opened):
    source = opened(rows(tmp_path, {"bboxes": PAIR, "label": "cat"}, {"bboxes": PAIR[:1], "label": "dog"}))
    assert [sample.label for sample in source.samples()] == ["cat", "dog"]
    assert "bboxes (lists of boxes)" in describe_unused(source.description.table, source.description.used)[0]
