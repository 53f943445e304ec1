"""Layouts: names, mappings, ranges of columns, and what is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.column_ranges import expand_columns, range_ends
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import parse_layout, resolve_types, table_layout, with_images
from tests.each import each
from tests.refusals import Refusal, refuses


def test_a_layout_is_sorted_by_feature():
    layout = parse_layout({"b": "key", "a": {"field": "column.x", "type": "float"}})
    assert [(feature.name, feature.type) for feature in layout.features] == [("a", "float"), ("b", "bytes")]
    assert layout.columns == {"x"}
    assert Content.IMAGE not in layout.required
    assert Content.LABEL not in layout.required


def test_what_a_layout_says_of_itself_can_be_read_again():
    layout = parse_layout("imagenet")
    assert parse_layout(layout.to_json()) == layout


@each(
    "value, refusal",
    [
        ("tdfs", Refusal("unknown_layout", "layout")),
        ({}, Refusal("invalid_layout", "layout")),
        ({"x": "image.heigth"}, Refusal("unknown_field", "layout", says=["image.height?"])),
        ({"x": "column."}, Refusal("unknown_field", "layout")),
        ({"x": 5}, Refusal("invalid_layout", "layout", says=["feature 'x'"])),
        ({"x": {"field": "key", "kind": "bytes"}}, Refusal("invalid_layout", "layout", says=["'field', 'type'"])),
        ({"x": {"field": "key", "type": "string"}}, Refusal("unknown_type", "layout", says=["'string'"])),
        ({"x": {"field": "image.encoded", "type": "int64"}}, Refusal("type_does_not_fit", "layout", says=["int64"])),
    ],
)
def test_what_is_no_layout_is_refused_with_its_place(value, refusal):
    with refuses(refusal):
        parse_layout(value)


def test_several_images_take_the_place_of_one():
    layout = with_images(parse_layout("tfds"), {"left": False, "views": True})
    assert [(one.name, one.field, one.several) for one in layout.features] == [
        ("filename", "filename", False), ("label", "label.index", False),
        ("left", "images.left", False), ("views", "images.views", True),
    ]  # fmt: skip
    own = parse_layout({"a": "image.encoded", "b": "images.views"})
    assert [one.several for one in with_images(own, {"left": False, "views": True}).features] == [False, True]
    for images in ({"image": False}, {}):
        assert with_images(parse_layout("tfds"), images) == parse_layout("tfds")


@pytest.mark.parametrize(
    ("layout", "refusal"),
    [
        (
            {"a": "images.right"},
            Refusal("unknown_image", "layout", "image_column", says=["images.right", "left, label"]),
        ),
        ("tfds", Refusal("several_images", says=["'label'"])),
        ("detection", Refusal("several_images", says=["boxes and masks"])),
    ],
)
def test_images_that_a_layout_cannot_hold_are_refused(layout, refusal):
    with refuses(refusal):
        with_images(parse_layout(layout), {"left": False, "label": False})


def test_a_column_without_a_type_takes_the_sources_type():
    layout = resolve_types(parse_layout({"x": "column.x"}), {"x": "float"})
    assert layout.features[0].type == "float"


def test_a_column_whose_type_nobody_says_is_refused():
    with refuses("missing_column_type", "layout", says=["'x'"]):
        resolve_types(parse_layout({"x": "column.x"}), None)


def test_a_typed_tables_layout_is_its_columns():
    layout = table_layout({"b": "int64", "a": "bytes"})
    assert [(feature.name, feature.field, feature.type) for feature in layout.features] == [
        ("a", "column.a", "bytes"),
        ("b", "column.b", "int64"),
    ]


# Ranges of columns.


TABLE = ("path", "x0", "x1", "x2", "y", "left_eye", "nose", "right_eye", "p001", "p002", "p003")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("columns.x0..x2", ["x0", "x1", "x2"]),
        ("columns.x1..x1", ["x1"]),
        ("columns.left_eye..right_eye", ["left_eye", "nose", "right_eye"]),
        ("columns.x2..left_eye", ["x2", "y", "left_eye"]),
        ("columns.p001..p003", ["p001", "p002", "p003"]),
        ("columns.y, x0..x1", ["y", "x0", "x1"]),
        ("columns.nose,y", ["nose", "y"]),
    ],
)
def test_a_range_is_that_of_the_numbers_or_of_the_table(field, expected):
    assert list(expand_columns(field, TABLE, where="w")) == expected


@given(st.integers(0, 120), st.integers(1, 30), st.integers(0, 3), st.randoms())
def test_numbers_count_whatever_the_order_of_the_table(first, count, width, chance: random.Random):
    names = [f"x{number:0{width}d}" for number in range(first, first + count)]
    if {len(name) for name in names} != {len(names[0])} and names[0][1] == "0" and len(names[0]) > 2:
        return
    table = chance.sample(names, len(names))
    assert list(expand_columns(f"columns.{names[0]}..{names[-1]}", table, where="w")) == names
    assert list(expand_columns(f"columns.{names[0]}..{names[-1]}", (), where="w")) == names


@pytest.mark.parametrize(
    ("field", "code", "says"),
    [
        ("columns.x0..x3", "unknown_column", "'x3'"),
        ("columns.x0..z", "invalid_layout", "'z'"),
        ("columns.x2..x0", "invalid_layout", "before"),
        ("columns.right_eye..left_eye", "invalid_layout", "before"),
        ("columns.x0,x0..x2", "invalid_layout", "'x0' twice"),
        ("columns.x,y", "unknown_column", "'x'"),
    ],
)
def test_a_range_without_an_end_is_refused(field, code, says):
    with pytest.raises(RequestError) as refused:
        expand_columns(field, TABLE, where="w")
    assert refused.value.code == code
    assert says in str(refused.value)


def test_columns_between_the_numbers_make_a_range_unclear():
    table = ["x0", "y0", "x1", "y1", "x2", "y2"]
    with refuses("unclear_columns", "layout", says=["the 3 columns", "all 5", "y0, y1", "columns.x0,y0,…"]):
        expand_columns("columns.x0..x2", table, where="`layout`: feature 'points': columns.x0..x2")
    assert expand_columns("columns.x0..y2", table, where="w") == tuple(table)


def test_the_ends_of_a_range_are_known_without_the_table():
    assert range_ends("columns.x0..x135,y") == ("x0", "x135", "y")
    assert range_ends("columns.x0..") == ("x0", "")
