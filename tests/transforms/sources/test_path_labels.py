from __future__ import annotations

import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.path_labels import path_label
from tests.refusals import refuses

WORD = st.text("abcxyz", min_size=1, max_size=5)


@given(words=st.lists(WORD, min_size=1, max_size=3, unique=True), key=st.text("abcxyz/._1", max_size=20))
def test_the_label_is_the_leftmost_of_the_words(words, key):
    found = [(key.find(word), words.index(word), word) for word in words if word in key]
    expected = min(found)[2] if found else None
    assert path_label(key, re.compile(f"(?P<label>{'|'.join(words)})")) == expected


@pytest.mark.parametrize("pattern", ["(?P<label>x)?a", "(?P<label>x*)"])
def test_a_group_that_matches_nothing_gives_no_label(pattern):
    assert path_label("a.jpg", re.compile(pattern)) is None


PATTERN = r"(?P<subject>s\d+)_(?P<group>\w+)/(?P<label>cat|dog)(?P<view>_\w+)?\."


@pytest.fixture(params=["folder", "tar", "zip"])
def opened_pattern(request, opened, touch, read_containers, listed):
    """Lists images whose names a pattern reads, in a folder or an archive."""

    def run(**fields):
        root = touch("in/s1_a/cat_left.jpg", "in/s2_b/dog.jpg") / "in"
        path = root
        if request.param != "folder":
            shutil.make_archive(str(root), request.param, root)
            path = root.with_suffix(f".{request.param}")
        source = opened(path, label_pattern=PATTERN, **fields)
        return source, list(listed(source).values()) if path == root else read_containers(source)[0]

    return run


def test_named_groups_of_a_pattern_are_columns(opened_pattern):
    source, samples = opened_pattern(columns=frozenset({"subject", "view"}))
    found = sorted((sample.label, sample.group, dict(sample.columns)) for sample in samples)
    assert found == [("cat", "a", {"subject": "s1", "view": "_left"}), ("dog", "b", {"subject": "s2", "view": None})]
    assert (list(source.description.columns), source.description.column_types) == (
        ["subject", "view"],
        {"subject": "bytes", "view": "bytes"},
    )
    assert not any("not used" in note for note in source.notes)


def test_groups_that_the_layout_does_not_take_are_noted(opened_pattern):
    source, samples = opened_pattern()
    assert all(not sample.columns for sample in samples)
    assert "groups of `label_pattern` not used: subject, view; a layout takes such as column.subject" in source.notes
    with refuses("missing_group", "layout", "label_pattern", says=["column.age"]):
        opened_pattern(columns=frozenset({"age"}))
