"""Paths and globs as strings."""

from __future__ import annotations

import os

from beam_tfrecords.storage import paths
from tests.each import each


@each(
    "pattern, path, matches",
    [
        ("a/*.jpg", "a/1.jpg", True),
        ("a/*.jpg", "a/b/1.jpg", False),
        ("a?1.jpg", "a-1.jpg", True),
        ("a?1.jpg", "a/1.jpg", False),
        ("a/**", "a/b/1.jpg", True),
        ("a/**/*.jpg", "a/b/c/1.jpg", True),
        ("a/**/*.jpg", "a/1.jpg", True),
        ("a/**/*.jpg", "ab/1.jpg", False),
        ("**/1.jpg", "1.jpg", True),
        ("a**/1.jpg", "ab/c/1.jpg", True),
        ("a**/b", "ab", False),
        ("[a-c]/1", "b/1", True),
        ("[!a-c]/1", "b/1", False),
        ("a[!b]1", "a/1", False),
        ("[]]", "]", True),
        ("a[1", "a[1", True),
        ("a.b+c", "a.b+c", True),
        ("a.b", "axb", False),
        ("a*", "a\nb", True),
        ("a*", "a.jpg/", False),
    ],
)
def test_wildcards_stay_within_a_component_except_for_two_stars(pattern, path, matches):
    assert bool(paths.compile_glob(pattern).fullmatch(path)) is matches


def test_every_match_of_a_glob_begins_with_its_literal_prefix():
    assert paths.literal_prefix("photos/a[1]*") == "photos/a"
    assert paths.literal_prefix("photos/a") == "photos/a"


def test_uris_are_joined_and_split_at_slashes():
    assert paths.join("gs://bucket/", "a/", "b") == "gs://bucket/a/b"
    assert paths.basename("gs://bucket/a/b/") == "b"
    assert paths.dirname("gs://bucket/a/b/") == "gs://bucket/a"
    assert paths.dirname("/a/b") == "/a"


def test_local_paths_become_absolute_and_uris_stay(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert paths.absolute("a") == os.path.join(os.getcwd(), "a")
    assert paths.absolute("gs://bucket/a") == "gs://bucket/a"
    assert not paths.has_scheme("/gs://bucket")
