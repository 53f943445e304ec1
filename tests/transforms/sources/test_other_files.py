"""Files that come with images and are none: what has no extension is told by its content, the rest by its name."""

from __future__ import annotations

import pytest

from tests.archive_files import tar_of

CONTENTS = {
    "cat/photo": "jpeg",
    "cat/notes": b"What I saw today\n",
    "cat/table": b"a,b\n1,2\n",
    "cat/page": b"<!DOCTYPE html><html>",
    "LICENSE": b"Apache License",
    "cat/README": b"Cats",
    "_SUCCESS": b"",
    "cat/empty": b"",
    "cat/zeros": bytes(2000),
    "cat/picture.jpg": "jpeg",
    "cat/@eaDir/picture.jpg/SYNOPHOTO_THUMB_M.jpg": "jpeg",
    "__MACOSX/cat/picture.jpg": "jpeg",
    "cat/Thumbs.db": b"\xd0\xcf\x11\xe0",
    "#recycle/cat/old.jpg": "jpeg",
}
SAMPLES = {"cat/photo", "cat/empty", "cat/zeros", "cat/picture.jpg"}
SKIPPED = {"not an image": 6, "system folder": 3, ".db": 1}


@pytest.fixture
def contents(photos):
    """Path -> content."""
    jpeg = next(photos.glob("*/*.jpg")).read_bytes()
    return {name: jpeg if content == "jpeg" else content for name, content in CONTENTS.items()}


def test_files_in_folders_that_are_not_images_are_skipped_and_counted(contents, tmp_path, opened, listed):
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    source = opened(tmp_path)
    samples = listed(source)
    assert set(samples) == SAMPLES
    assert {sample.label for sample in samples.values()} == {"cat"}
    assert dict(source.skipped.counts) == SKIPPED
    assert set(source.skipped.examples["system folder"]) >= {"__MACOSX/cat/picture.jpg"}


def test_members_of_archives_that_are_not_images_are_skipped_and_counted(contents, tmp_path, opened, read_containers):
    (tmp_path / "photos.tar").write_bytes(tar_of(contents))
    samples, skipped = read_containers(opened(tmp_path / "photos.tar"))
    assert {sample.key for sample in samples} == SAMPLES
    assert dict(skipped.counts) == SKIPPED


def test_a_file_without_an_extension_that_cannot_be_read_stays_a_sample(tmp_path, opened, listed):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat/1.jpg").write_bytes(b"pixels")
    (tmp_path / "cat/gone").symlink_to("nowhere")
    samples = listed(opened(tmp_path))
    assert samples["cat/gone"].failure is not None


def test_system_folders_are_not_classes_or_splits(touch, opened, listed):
    root = touch("train/cat/1.jpg", "test/cat/1.jpg", "__MACOSX/train/cat/1.jpg", "@eaDir/1.jpg")
    assert {sample.split for sample in listed(opened(root)).values()} == {"train", "test"}
