"""The files of class names."""

from __future__ import annotations

import pytest

from beam_tfrecords.dataset.label_files import label_map, read_label_map
from beam_tfrecords.features.layouts import parse_layout

NAMES = ["cat", 'a "b" {c}', "été's", "back\\slash", "1"]


def test_a_label_map_of_ours_is_read_back():
    (data,) = label_map(parse_layout("detection"), NAMES).values()
    assert read_label_map(data) == NAMES


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("item {\n  name: 'n02'\n  id: 2\n  display_name: 'dog'\n}\nitem { id: 1 name: 'cat' }", ["cat", "dog"]),
        # COCO's ids have gaps, which stay.
        ("item { id: 1 name: 'cat' } item { id: 3 name: 'dog' }", ["cat", "category_2", "dog"]),
        ("item { id: 0 name: 'background' } item { id: 1 name: 'dog' }", ["dog"]),
        ("nothing", []),
        ("", []),
    ],
)
def test_maps_of_others(text, names):
    assert read_label_map(text.encode()) == names
