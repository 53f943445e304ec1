"""Which samples are wanted: by path and by class."""

from __future__ import annotations

import pytest

from beam_tfrecords.transforms.sources.selection import Selection, class_filter


@pytest.mark.parametrize(
    ("glob", "matches", "others"),
    [
        ("*.png", ["1.png", "cat/1.png", "a/b/1.png"], ["1.jpg", "1.png.jpg"]),
        ("cat", ["cat/1.jpg", "a/cat/b/1.jpg"], ["cats/1.jpg", "1_cat.jpg"]),
        ("cat/*", ["cat/1.jpg", "cat/old/1.jpg"], ["a/cat/1.jpg", "dog/cat.jpg"]),
        ("**/old/*.jpg", ["old/1.jpg", "a/b/old/1.jpg"], ["older/1.jpg", "a/old.jpg"]),
        ("*_[ab].jpg", ["x_a.jpg", "cat/x_b.jpg"], ["x_c.jpg"]),
    ],
)
def test_a_glob_matches_paths_and_folders_above_them(glob, matches, others):
    include, exclude = Selection(include=(glob,)), Selection(exclude=(glob,))
    for path in matches:
        assert (include.skips_path(path), exclude.skips_path(path)) == (None, "exclude")
    for path in others:
        assert (include.skips_path(path), exclude.skips_path(path)) == ("include", None)


def test_exclude_beats_include_and_one_of_several_globs_is_enough():
    selection = Selection(include=("cat", "dog"), exclude=("*.gif",))
    assert [selection.skips_path(path) for path in ("cat/1.jpg", "dog/1.jpg", "cat/1.gif", "cow/1.jpg")] == [
        None,
        None,
        "exclude",
        "include",
    ]


def test_classes_are_compared_as_labels_are():
    def wants(label, *classes):
        return class_filter(classes)(label)

    assert wants("caf\u00e9", "cafe\u0301")
    assert wants(1, "1", "3")
    assert wants("3", "1", "3")
    assert wants(3.0, "1", "3")
    assert not wants(0, "1", "3")
    assert not wants("13", "1", "3")
    assert not wants(0, "cat")
    assert not wants(1, "cat")
    assert wants(None, "cat")
