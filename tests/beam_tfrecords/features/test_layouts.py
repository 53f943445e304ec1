"""Layouts: names, mappings, and what is refused."""

from __future__ import annotations

import pytest

from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import NAMED, parse_layout, resolve_types, table_layout, with_images
from tests.each import each
from tests.refusals import Refusal, refuses


@each("name", NAMED)
def test_a_named_layout_is_its_mapping(name):
    assert parse_layout(name) == parse_layout(NAMED[name])


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
