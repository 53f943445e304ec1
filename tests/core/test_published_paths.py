"""Published paths: relative to the inputs, different for different files, and reversible."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from beam_tfrecords.dataset.published_paths import UNCHANGED, PublishedPaths
from tests.each import each

NAMES = st.sampled_from(["a", "b", "in", "photos", "photos2", "x.tar", "1.jpg", "ü", "a b", "@1", "*", "[x]"])
PATHS = st.lists(NAMES, min_size=1, max_size=6).map(lambda names: "/" + "/".join(names))
INPUTS = st.lists(PATHS, min_size=1, max_size=3)


@given(INPUTS, st.lists(PATHS, min_size=1, max_size=6, unique=True))
@example(["/data/a/photos", "/masks"], ["/masks/1.jpg", "/photos/1.jpg", "/data/a/photos/1.jpg", "/data/x"])
def test_paths_stay_different_and_those_of_the_input_can_be_found_again(inputs, others):
    paths = PublishedPaths.of(inputs)
    files = [*others, *(f"{path}/{name}" for path in inputs for name in ("1.jpg", "cat/2.jpg"))]
    published = {file: paths.publish(file) for file in files}
    assert len(set(published.values())) == len(set(files))
    assert not any(path.startswith("/") for path in published.values())
    for file in files[len(others) :]:
        assert paths.find(published[file]) == file


@given(INPUTS, PATHS, st.sampled_from(["/home/somebody", "/mnt/disk/1"]))
def test_the_folder_around_all_inputs_does_not_matter(inputs, other, home):
    one, two = (PublishedPaths.of([f"{home}/{name}{path}" for path in inputs]) for name in ("here", "there"))
    files = [(f"{home}/here{path}/1.jpg", f"{home}/there{path}/1.jpg") for path in inputs]
    for here, there in files:
        assert one.publish(here) == two.publish(there)
        assert home not in one.publish(here)
        assert one.publish_text(f"no such file: '{here}'") == two.publish_text(f"no such file: '{there}'")
    assert one.publish(other) == PublishedPaths.of([f"{home}/here{path}" for path in inputs]).publish(other)
    assert one.location("salt") != two.location("salt")


@each(
    "inputs, path, expected",
    [
        (["/home/me/photos"], "/home/me/photos/cat/1.jpg", "photos/cat/1.jpg"),
        (["/home/me/photos/"], "/home/me/photos/cat/1.jpg", "photos/cat/1.jpg"),
        (["file:///home/me/my%20photos"], "/home/me/my photos/1.jpg", "my photos/1.jpg"),
        (["file://localhost/home/me/a.tar"], "file:///home/me/a.tar#1.jpg", "a.tar#1.jpg"),
        (["/home/me/photos/*/*.jpg"], "/home/me/photos/cat/1.jpg", "cat/1.jpg"),
        (["/home/me/a.tar"], "/home/me/a.tar#cat/1.jpg", "a.tar#cat/1.jpg"),
        (["/home/me/labels/table.csv"], "/home/me/labels/cat/1.jpg", "cat/1.jpg"),
        (["/home/me/labels/table.csv"], "/home/me/images/1.jpg", "../images/1.jpg"),
        (["/home/me/photos", "/home/me/masks"], "/home/me/masks/1.png", "masks/1.png"),
        (["/data/mine/photos", "/mnt/masks"], "/mnt/masks/1.png", "@1/masks/1.png"),
        (["/photos", "/masks"], "/masks/1.png", "masks/1.png"),
        (["/masks", "/data/mine/photos"], "/masks/1.png", "@1/masks/1.png"),
        (["gs://bucket/photos"], "gs://bucket/photos/1.jpg", "gs://bucket/photos/1.jpg"),
        (["/home/me/t.csv"], "https://example.org/1.jpg", "https://example.org/1.jpg"),
        (["/home/me/t.csv"], "steps:rows#1", "steps:rows#1"),
    ],
)
def test_a_published_path_starts_at_the_folder_that_contains_all_inputs(inputs, path, expected):
    assert PublishedPaths.of(inputs).publish(path) == expected


def test_a_file_far_from_the_inputs_is_named_by_a_digest_of_its_folder():
    paths = PublishedPaths.of(["/home/me/photos"])
    assert re.fullmatch("@[0-9a-f]{12}/1.jpg", paths.publish("/mnt/disk/1.jpg"))
    assert paths.publish("/mnt/disk/1.jpg") != paths.publish("/mnt/disk2/1.jpg")
    assert paths.find(paths.publish("/mnt/disk/1.jpg")) is None


def test_texts_lose_the_folders_of_the_request():
    paths = PublishedPaths.of(["/home/me/photos"], ["/mnt/out"])
    text = "outside /home/me/photos; '/home/me/photos/1.jpg' and /mnt/out/.build, but not /home/meme/1.jpg"
    expected = "outside photos; 'photos/1.jpg' and out/.build, but not /home/meme/1.jpg"
    assert paths.publish_text(text) == expected


def test_a_traceback_names_code_without_its_folders():
    found = PublishedPaths.of(["/photos"]).publish_traceback(f'File "{__file__}", line 1\nFile "/no/such/x.py", line 2')
    assert found == 'File "test_published_paths.py", line 1\nFile "x.py", line 2'


@given(PATHS)
def test_values_that_are_not_published_keep_their_paths(path):
    assert UNCHANGED.publish(path) == UNCHANGED.publish_text(path) == path
