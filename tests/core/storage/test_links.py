"""Links between local folders: every folder is listed once."""

from __future__ import annotations

import operator
import os

import pytest

from beam_tfrecords import storage
from beam_tfrecords.storage import local


@pytest.fixture
def files(tmp_path):
    """Makes files; returns a function that lists a folder or glob as paths below tmp_path."""

    def make(*names):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"x")

        def listed(pattern="", *, special=False):
            found = [entry.path for entry in storage.list_files(os.path.join(tmp_path, pattern), special=special)]
            return sorted(path.removeprefix(f"{tmp_path}/") for path in found)

        return listed

    return make


def test_a_loop_of_links_is_listed_once(files, tmp_path):
    listed = files("photos/cat/1.jpg", "photos/dog/2.jpg")
    for number in range(3):
        (tmp_path / f"photos/cat/loop{number}").symlink_to(tmp_path / "photos")
    whole = ["photos/cat/1.jpg", "photos/dog/2.jpg"]
    assert listed("photos") == whole
    assert listed("photos/**/*.jpg") == whole
    assert listed("photos/**") == whole


def test_links_to_listed_folders_are_reported(files, tmp_path):
    listed = files("cat/1.jpg")
    (tmp_path / "cat/self").symlink_to(".")
    (tmp_path / "alias").symlink_to("cat")
    assert listed(special=True) == ["alias/", "cat/1.jpg", "cat/self/"]
    assert listed() == ["cat/1.jpg"]


def test_the_path_without_links_wins_and_then_the_first_in_order(files, tmp_path):
    listed = files("in/z/1.jpg", "outside/2.jpg")
    (tmp_path / "in/a").symlink_to("z")
    for name in ("y", "b", "x"):
        (tmp_path / "in" / name).symlink_to(tmp_path / "outside")
    assert listed("in") == ["in/b/2.jpg", "in/z/1.jpg"]


def test_hard_links_and_links_to_files_are_files_of_their_own(files, tmp_path):
    listed = files("cat/1.jpg")
    os.link(tmp_path / "cat/1.jpg", tmp_path / "cat/2.jpg")
    (tmp_path / "cat/3.jpg").symlink_to("1.jpg")
    assert listed() == ["cat/1.jpg", "cat/2.jpg", "cat/3.jpg"]


def test_a_glob_that_crosses_folders_leaves_out_hidden_files(files):
    listed = files("a/1.jpg", "a/b/2.jpg", "a/.b/3.jpg", ".a/4.jpg", "a/.5.jpg", "a/b/6.png", "7.jpg")
    assert listed("**/*.jpg") == ["7.jpg", "a/1.jpg", "a/b/2.jpg"]
    assert listed("a/**/*.jpg") == ["a/1.jpg", "a/b/2.jpg"]
    assert listed("nowhere/**/*.jpg") == []


def test_six_photos_with_a_loop_are_six_samples(photos, tmp_path, build):
    from tests.beam_pipelines.dataset_checks import manifest_of, splits_of

    for folder in ("cat", "flower"):
        for path in sorted((photos / folder).glob("*.jpg"))[:3]:
            (tmp_path / "in" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / folder / path.name).write_bytes(path.read_bytes())
        (tmp_path / "in" / folder / "all").symlink_to(tmp_path / "in")
    out = build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--image_size=16")
    assert len(splits_of(out)) == 6
    assert manifest_of(out)["skipped"]["link to a listed folder"]["files"] == 2


@pytest.mark.parametrize("least", [1, 2, 100])
@pytest.mark.parametrize("pattern", ["in", "in/**/*.jpg", "in/**", "in/*/*.jpg", "in/*/[cx1]*", "in/a/*", "in/loop/**"])
def test_the_parts_of_a_listing_are_the_listing(files, tmp_path, monkeypatch, pattern, least):
    names = [f"in/{folder}/{number}.jpg" for folder in ("a", "a/b", "c", ".d") for number in range(9)]
    files(*names, "in/e/cover.png", "in/1.jpg", "outside/1.jpg", "outside/f/2.jpg", "in/c/.hidden.jpg")
    for name, target in {"in/loop": "in", "in/z": "outside", "in/a/b/y": "outside", "in/c/x": "gone"}.items():
        (tmp_path / name).symlink_to(tmp_path / target)
    (tmp_path / os.fsdecode(b"in/a/\xff.jpg")).touch()
    monkeypatch.setattr(local, "_LEAST_PART", least)
    root = os.path.join(tmp_path, pattern)
    for special in (False, True):
        parts = storage.partition_listing(root)
        found = [entry for part in parts for entry in storage.list_partition(root, part, special=special)]
        by_path = operator.attrgetter("path")
        assert sorted(found, key=by_path) == sorted(storage.list_files(root, special=special), key=by_path)
        assert len(found) > 1
    assert (len(parts) == 1) == (least == 100)


def test_parts_have_about_as_many_files(files, tmp_path, monkeypatch):
    files(*(f"in/{number:02}/{file}.jpg" for number in range(60) for file in range(3)))
    files(*(f"in/large/{number}.jpg" for number in range(400)))
    monkeypatch.setattr(local, "_LEAST_PART", 20)
    root = str(tmp_path / "in")
    sizes = [len(list(storage.list_partition(root, part))) for part in storage.partition_listing(root)]
    assert sum(sizes) == 580
    assert len(sizes) == 9 + 16
    assert max(sizes) < 60
    monkeypatch.setattr(local, "_MOST_PARTS", 5)
    assert len(storage.partition_listing(root)) == 2 + 4
