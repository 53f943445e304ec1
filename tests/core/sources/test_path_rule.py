"""Where paths that files of an input name may lead."""

from __future__ import annotations

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.sources.path_rule import resolve, shorten
from tests.each import each


@each(
    "path, root, expected",
    [
        ("a/1.jpg", "/data", "/data/a/1.jpg"),
        ("a/1.jpg", "/", "/a/1.jpg"),
        ("/data/a/1.jpg", "/data", "/data/a/1.jpg"),
        ("a/../b/1.jpg", "/data", "/data/b/1.jpg"),
        ("a..b/1..jpg", "/data", "/data/a..b/1..jpg"),
        ("file:///data/my%20cat%23.jpg", "/data", "/data/my cat#.jpg"),
        ("file://localhost/data/1.jpg", "/data", "/data/1.jpg"),
        ("a//1 %20.jpg", "gs://bucket/data", "gs://bucket/data/a//1 %20.jpg"),
        ("gs://bucket/data/a/1.jpg", "gs://bucket/data", "gs://bucket/data/a/1.jpg"),
        ("a/../b/1.jpg", "gs://bucket/data", "gs://bucket/data/b/1.jpg"),
        ("1.jpg", "gs://bucket", "gs://bucket/1.jpg"),
        # URLs of the web are outside of every folder.
        ("https://x.org/1.jpg?w=9&p=../2.jpg", "/data", "https://x.org/1.jpg?w=9&p=../2.jpg"),
        ("HTTP://x.org/1.jpg", "gs://bucket", "HTTP://x.org/1.jpg"),
        ("a/1.jpg", "https://x.org/images/", "https://x.org/images/a/1.jpg"),
    ],
)
def test_a_path_below_the_root_is_resolved(path, root, expected):
    assert resolve(path, root=root, allow_outside_root=False) == expected


OUTSIDE = [
    ("../1.jpg", "/data", "/data/../1.jpg"),
    ("a/../../data2/1.jpg", "/data", "/data/a/../../data2/1.jpg"),
    ("/etc/passwd", "/data", "/etc/passwd"),
    ("/data2/1.jpg", "/data", "/data2/1.jpg"),
    ("file:///data/%2e%2e/etc/passwd", "/data", "/data/../etc/passwd"),
    ("gs://bucket/1.jpg", "/data", "gs://bucket/1.jpg"),
    ("../1.jpg", "gs://bucket/data", "gs://bucket/1.jpg"),
    ("../../../other/1.jpg", "gs://bucket/data", "gs://bucket/other/1.jpg"),
    ("gs://other/data/1.jpg", "gs://bucket/data", "gs://other/data/1.jpg"),
    ("gs://bucket/data2/1.jpg", "gs://bucket/data", "gs://bucket/data2/1.jpg"),
    ("s3://bucket/data/1.jpg", "gs://bucket/data", "s3://bucket/data/1.jpg"),
    ("/data/1.jpg", "gs://bucket/data", "/data/1.jpg"),
    ("..", "/data", "/data/.."),
]


@each("path, root, expected", OUTSIDE)
def test_a_path_outside_the_root_is_rejected_unless_allowed(path, root, expected):
    with pytest.raises(SampleError) as error:
        resolve(path, root=root, allow_outside_root=False)
    assert error.value.reason.value == "outside_root"
    assert resolve(path, root=root, allow_outside_root=True) == expected


@each("path", ["ftp://x/1.jpg", "file://host/1.jpg", "file://x", "a\0.jpg", "file:///a%00.jpg"])
@each("allowed", [True, False])
def test_a_path_that_no_storage_reads_is_unreadable(path, allowed):
    with pytest.raises(SampleError) as error:
        resolve(path, root="/", allow_outside_root=allowed)
    assert error.value.reason.value == "unreadable"


def test_a_long_value_is_cut():
    assert shorten("a'b\n") == '"a\'b\\n"'
    assert len(shorten("x" * 10_000_000)) < 210
    assert shorten("x" * 10_000_000).endswith("…'")


@each(
    "path, root, inside",
    [
        ("/data", "/data/", True),
        ("/data/x/..", "/data", True),
        ("/data2", "/data", False),
        ("/", "/data", False),
        ("/x", "/", True),
        ("gs://b/x", "gs://b", True),
        ("gs://b2/x", "gs://b", False),
        ("/b/x", "gs://b", False),
    ],
)
def test_a_folder_is_inside_itself_and_what_is_above_it(path, root, inside):
    assert storage.is_inside(path, root) is inside
