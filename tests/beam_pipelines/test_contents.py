"""A layout is refused if, and only if, it needs what the source does not provide."""

from __future__ import annotations

import pytest

from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import parse_layout
from tests.each import each
from tests.identity_inputs import INPUTS, flags_of
from tests.refusals import refuses


def open_layout(source, root, layout):
    words = parse_arguments([*flags_of(source, root), f"--layout={layout}", f"--output={root}/out"]).raw_values
    return open_spec_source(read_build_spec(words))


@pytest.mark.parametrize(
    ("layout", "content", "settings"),
    [
        ("segmentation", "masks", ["input", "layout"]),
        ("detection", "objects", ["input", "layout", "source"]),
        ("captions", "captions", ["input", "layout"]),
        ("columns", "columns", ["input", "layout"]),
    ],
)
def test_a_folder_of_images_refuses_a_layout_by_what_it_lacks(tmp_path, layout, content, settings):
    INPUTS["tar"][0](tmp_path, 0)
    with refuses("missing_content", *settings, says=[f" {content}, ", "pictures.tar", " tar, "]):
        open_layout("tar", tmp_path, layout)


@each(
    "name, required",
    [
        ("image", {Content.IMAGE}),
        ("array", {Content.IMAGE, Content.ARRAY}),
        ("tfds", {Content.IMAGE, Content.LABEL}),
        ("segmentation", {Content.IMAGE, Content.MASK}),
        ("captions", {Content.IMAGE, Content.CAPTIONS}),
        ("detection", {Content.IMAGE, Content.OBJECTS}),
        ("detection_masks", {Content.IMAGE, Content.OBJECTS, Content.OBJECT_MASKS}),
        ("detection_polygons", {Content.IMAGE, Content.OBJECTS, Content.POLYGONS}),
        ("detection_keypoints", {Content.IMAGE, Content.OBJECTS, Content.KEYPOINTS}),
        ("columns", {Content.COLUMNS}),
    ],
)
def test_a_layout_needs_what_its_fields_are_made_from(name, required):
    assert parse_layout(name).required == required


def test_a_layout_of_several_images_needs_several():
    layout = parse_layout({"a": "images.left", "b": "images.right", "age": {"field": "column.age", "type": "int64"}})
    assert layout.required == {Content.IMAGE, Content.IMAGES, Content.COLUMNS}
