"""Names of exported files: distinct and safe, whatever keys and classes are called."""

from __future__ import annotations

import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.beam_pipelines.export.file_paths import (
    distinct,
    find_shared,
    name_folders,
    number_of,
    safe_name,
    stem_of,
)

# Names that file systems, shells and programs take for something else.
HARD = [
    *("../../up", "/root", "a/../b", ".hidden", "..", ".", "", " ", "CON", "nul.jpg", "-rf", "a\\b", "a:b", "a*?.jpg"),
    *("a\nb", "x" * 400, "写" * 200, "A.jpg", "a.jpg", "a.JPG", "a", "a.png", "e\u0301", "\xe9", "STRASSE", "straße"),
    *("a/b", "a_b", "a.", "a ", "_SUCCESS", "{a}", "[a]", "x/y/z.tar.gz"),
]


def names_of(keys: list[str]) -> list[str]:
    stems = [stem_of(key, ["train"]) for key in keys]
    shared = find_shared(np.array([number_of(stem) for stem in stems]))
    return [distinct(stem, key, is_shared=number_of(stem) in shared) for stem, key in zip(stems, keys, strict=True)]


def check_names(keys: list[str]) -> None:
    names = names_of(keys)
    folded = {unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold()) for name in names}
    assert len(folded) == len(keys)
    for name in names:
        assert len(name.encode()) < 200
        assert name not in (".", "..")
        assert not set(name) & set('/\\:*?"<>|\0\n{}[]')
        assert not name.startswith((".", "-", "_", " "))
        assert not name.endswith((".", " "))


def test_hard_names_become_distinct_safe_ones():
    check_names(HARD)
    # What looks like a name that was made distinct cannot take the place of one.
    made = names_of(["A", "a"])
    check_names(["A", "a", *made])


@given(st.lists(st.one_of(st.sampled_from(HARD), st.text(max_size=12)), unique=True))
def test_names_are_distinct_and_safe(keys):
    check_names(keys)


@given(st.lists(st.one_of(st.sampled_from(HARD), st.text(max_size=12)), unique=True))
def test_folders_are_distinct_and_safe(names):
    folders = [*name_folders(names).values()]
    assert len({folder.casefold() for folder in folders}) == len(names)
    assert all(safe_name(folder) == folder for folder in folders)
