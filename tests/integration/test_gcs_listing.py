"""Listing objects on several pages: nothing is lost or listed twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import name_ranges
from tests.integration.servers import gcs

pytestmark = pytest.mark.nightly

SHAPES = {
    "flat": [f"{number:03}.jpg" for number in range(60)],
    "class folders": [f"class_{number % 7}/{number:03}.jpg" for number in range(90)],
    "one folder with folders": [f"train/class_{number % 5}/{number:03}.jpg" for number in range(60)],
    "uneven": [*(f"a/{number}.jpg" for number in range(50)), "b/1.jpg", "c/d/e/1.jpg", "0.csv", "z.csv"],
    "folder objects": [f"{folder}/{name}" for folder in ("a", "b", "c") for name in ("", "1.jpg", "d/", "d/2.jpg")],
    "odd names": [f"{folder}/{number}é.jpg" for folder in ("a", "a!", "a b", "ä", "a0", "Z") for number in range(9)],
    "more folders than are listed at once": [f"{number:03}/1.jpg" for number in range(80)],
}


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A store whose pages have four objects, so that a few objects are very many."""
    monkeypatch.setattr(name_ranges, "_PAGE", 4)
    with gcs.gcs_server(tmp_path, buckets=("photos",)) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.parametrize("shape", SHAPES)
def test_every_object_is_listed_once(server, shape):
    names = SHAPES[shape]
    bucket = server.client().bucket("photos")
    for name in random.Random(0).sample(names, len(names)):
        bucket.blob(f"root/{name}").upload_from_string(b"x")
    bucket.blob("root2/other.jpg").upload_from_string(b"x")
    listed = Counter(entry.path for entry in storage.list_files("gs://photos/root"))
    assert listed == Counter(f"gs://photos/root/{name}" for name in names)


def test_an_error_in_one_folder_is_the_error_of_the_listing(server):
    bucket = server.client().bucket("photos")
    for name in SHAPES["class folders"]:
        bucket.blob(name).upload_from_string(b"x")
    found = storage.list_files("gs://photos")
    next(found)
    server.refuse("GET", "/b/photos/o", status=401, times=100)
    with pytest.raises(BuildError, match="gs://photos: the Google credentials are refused"):
        list(found)
