"""The label that a pattern finds in a path."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.path_labels import PathPattern

WORD = st.text("abcxyz", min_size=1, max_size=5)


@given(words=st.lists(WORD, min_size=1, max_size=3, unique=True), key=st.text("abcxyz/._1", max_size=20))
def test_the_label_is_the_leftmost_of_the_words(words, key):
    found = [(key.find(word), words.index(word), word) for word in words if word in key]
    expected = min(found)[2] if found else None
    assert PathPattern(re.compile(f"(?P<label>{'|'.join(words)})")).find(key)["label"] == expected


@pytest.mark.parametrize("pattern", ["(?P<label>x)?a", "(?P<label>x*)"])
def test_a_group_that_matches_nothing_gives_no_label(pattern):
    assert PathPattern(re.compile(pattern)).find("a.jpg")["label"] is None
