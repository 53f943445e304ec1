"""A folder of many images is listed by batches, in bounded memory."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, one_by_one
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.sources.folders.image_folder import ImageFolder
from beam_tfrecords.transforms.sources.folders.roots import Root
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.partition import WHOLE, StagingFiles
from beam_tfrecords.transforms.sources.source import OpenRequest
from beam_tfrecords.transforms.sources.tally import Tally
from tests.core.opened_sources import make_request, open_source


def touch(root: Path, *names: str) -> Path:
    """Makes small files; returns their folder."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"pixels")
    return root


@pytest.mark.nightly
def test_the_listing_takes_the_same_memory_for_many_files_as_for_few(tmp_path):
    root = touch(tmp_path, *(f"{folder}/{number}.jpg" for folder in "abcd" for number in range(1000)))

    def peak(source: ImageFolder) -> int:
        tracemalloc.start()
        for _ in source.samples():
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    def listing_of(folder: str) -> ImageFolder:
        spec, needs = make_request(folder)
        return ImageFolder([Root(folder, folder)], OpenRequest(spec, Inputs([folder]), needs, ()), needs)

    few = peak(listing_of(f"{root}/a"))
    assert peak(listing_of(str(root))) < few + 20_000


def test_images_of_a_folder_are_listed_by_column(tmp_path):
    names = [f"{kind}/{number}.jpg" for kind in ("cat", "dog") for number in range(300)]
    root = touch(tmp_path, *names, "dog/notes.txt")
    os.symlink(root / "nowhere", root / "cat/300.jpg")
    found = list(open_source(root, source="image_folder").source.read(WHOLE, Tally(), StagingFiles("", "")))
    batches = [refs for refs in found if isinstance(refs, RefColumns)]
    assert sum(map(len, batches)) == 600
    assert max(map(len, batches)) == 256
    (broken,) = (ref for ref in found if not isinstance(ref, RefColumns))
    assert (broken.key, broken.failure[0]) == ("cat/300.jpg", "unreadable")
    refs = {ref.key: ref for ref in one_by_one(found)}
    assert refs.keys() == {*names, "cat/300.jpg"}
    entry = storage.stat(str(root / "dog/7.jpg"))
    place = one_image(File(entry.path, entry.version))
    assert refs["dog/7.jpg"] == SampleRef("dog/7.jpg", place, entry.size, entry.fingerprint)
