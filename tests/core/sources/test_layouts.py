"""Layouts of folders: each matches its example, and those before it do not."""

from __future__ import annotations

import contextlib

from beam_tfrecords.transforms.sources.detect.interpretation import Request, UnclearError
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.meaning.layouts import LAYOUTS, Level
from beam_tfrecords.transforms.splits import split_of_folder
from tests.core.opened_sources import make_request
from tests.each import each


@each("layout", LAYOUTS, ids=lambda layout: layout.match.__name__)
def test_each_layout_is_the_first_that_matches_its_example(layout):
    folders = FolderSummary()
    for name in layout.example.split():
        folders.add_image(name)
    names = ("dog",) if "depth" in layout.example else ()
    request = Request(*make_request("/photos", class_names=names))
    splits = {name: split for name in folders.tree().below("") if (split := split_of_folder(name))}
    level = Level(folders.tree(), request, splits or {"": None}, [])
    for one in LAYOUTS[: LAYOUTS.index(layout)]:
        assert one.match(level) is None
    with contextlib.suppress(UnclearError):
        assert layout.match(level) is not None
