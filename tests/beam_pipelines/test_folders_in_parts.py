"""Folders that the workers list: the dataset is the one of a folder that the launcher lists."""

from __future__ import annotations

import os
import shutil

import pytest

from beam_tfrecords.beam_pipelines.build.listing import list_for_build
from beam_tfrecords.beam_pipelines.commands.cli import main
from beam_tfrecords.storage import local
from beam_tfrecords.transforms.sources.folders import image_folder

FLAGS = ("--image_size=8", "--max_failures=1", "--name=pets", "--no_report", "--overwrite")


@pytest.fixture
def in_parts(monkeypatch, count_parts):
    """Has the workers list folders of more than five images; returns the numbers of parts."""

    def switch():
        monkeypatch.setattr(image_folder, "MOST_LISTED_HERE", 5)
        monkeypatch.setattr(local, "_LEAST_PART", 7)
        return count_parts()

    return switch


@pytest.fixture(scope="module")
def photos(tmp_path_factory, broken):
    """What a folder may hold: splits, links in a circle and to elsewhere, names of all kinds, and broken files."""
    root = tmp_path_factory.mktemp("parts") / "photos"
    shutil.copytree(broken, root / "train", symlinks=True, ignore=shutil.ignore_patterns("*.png", "without_a_class*"))
    shutil.copytree(broken / "cat", root / "test/cat", ignore=shutil.ignore_patterns("*.jpg"))
    shutil.copytree(broken / "dog", root.parent / "elsewhere", ignore=shutil.ignore_patterns("*.png", "in a*"))
    (root / "train/rabbit").symlink_to(root.parent / "elsewhere")
    (root / "train/dog/all").symlink_to(root)
    os.link(root / "train/cat/cat02.jpg", os.path.join(root, "train/cat/sm\udce9.jpg"))
    os.mkdir(os.path.join(os.fspath(root), "train/dog/h\udce4sslich"))
    shutil.copyfile(root / "train/cat/cat02.jpg", os.path.join(root, "train/dog/h\udce4sslich/1.jpg"))
    return root


REQUESTS = {
    "folders": ["--input={photos}"],
    "excluded": ["--input={photos}", "--exclude=*in a deeper*", "--limit=20"],
    "glob that crosses folders": ["--input={photos}/**/*.jpg"],
    "glob": ["--input={photos}/train/*/*.jpg"],
    "several": [
        "--input=train={photos}/train/cat",
        "--input=train={photos}/train/dog",
        "--input=test={photos}/test",
        "--label_pattern=(?P<label>cat|dog)",
    ],
    "splits of inputs": ["--input=train={photos}/train", "--input=test={photos}/test"],
    "fractions": ["--input={photos}/train", "--splits=train=0.8,test=0.2", "--stratify"],
    "classes": ["--input={photos}/train", "--classes=cat,rabbit"],
    "pattern": ["--input={photos}", "--label_pattern=/(?P<label>[a-z]+)[^/]*$"],
    "named split folders": ["--input={photos}", "--splits=training=train"],
}


@pytest.mark.any_workers
@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_dataset_is_the_same(photos, tmp_path, in_parts, snapshot, beam_workers, request_name):
    words = [word.format(photos=photos) for word in REQUESTS[request_name]]
    counts, found = [], []
    for listed_by_workers in (False, True):
        if listed_by_workers:
            counts = in_parts()
        assert main(["convert", f"--output={tmp_path / 'out'}", *words, *FLAGS, *beam_workers]) == 0
        found.append(snapshot(tmp_path / "out"))
    assert found[0] == found[1]
    assert counts[-1] > 3


def test_few_images_and_those_with_masks_are_listed_by_the_launcher(tmp_path, in_parts, picture, save):
    counts = in_parts()
    for number in range(8):
        save(tmp_path / f"images/{number}.png", picture(number, 8, 8))
        save(tmp_path / f"masks/{number}.png", picture(number, 8, 8, 1))
        save(tmp_path / f"few/{number % 2}/{number % 4}.png", picture(number, 8, 8))
    masks = [f"--input={tmp_path / 'images'}", f"--mask_root={tmp_path / 'masks'}", "--layout=segmentation"]
    for words in (masks, [f"--input={tmp_path / 'few'}"]):
        assert main(["convert", f"--output={tmp_path / 'out'}", *words, *FLAGS]) == 0
    assert not counts


def test_a_refused_folder_leaves_nothing_and_is_refused_alike(photos, tmp_path, in_parts, capsys):
    command = ["convert", f"--output={tmp_path / 'out'}", "--no_report"]
    requests = [
        [f"--input={photos}", "--include=nothing"],
        [f"--input={photos}", "--class_names=cat"],
        [f"--input={photos}", "--num_shards=1000"],
        [f"--input={photos}", "--splits=training=nowhere"],
        [f"--input={photos / 'train'}", "--classes=horse"],
    ]
    messages, counts = [], []
    for listed_by_workers in (False, True):
        if listed_by_workers:
            counts = in_parts()
        for words in requests:
            assert main([*command, *words]) == 2
            assert not (tmp_path / "out").exists()
            messages.append(capsys.readouterr().err)
    assert messages[: len(requests)] == messages[len(requests) :]
    assert len(counts) == len(requests) - 1


@pytest.mark.any_workers
def test_a_folder_that_workers_cannot_read_is_refused(photos, tmp_path, in_parts, capsys, monkeypatch, beam_workers):
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(photos / "train/cat", folder / "cat")
    shutil.copytree(photos / "train/cat", folder / "dog")
    in_parts()
    index = list_for_build.list_by_workers

    def delete_first(*arguments):
        shutil.rmtree(folder / "dog")
        index(*arguments)

    monkeypatch.setattr(list_for_build, "list_by_workers", delete_first)
    assert main(["convert", f"--input={folder}", f"--output={out}", *beam_workers]) == 2
    assert capsys.readouterr().err.startswith(
        f"beam-tfrecords: --input={folder}: {folder}/dog cannot be read: No such file or directory; make it readable, "
    )
    assert not out.exists()


def test_a_changed_image_is_found_and_an_unchanged_folder_makes_no_version(tmp_path, in_parts, picture, save):
    out = tmp_path / "out"
    for number in range(12):
        save(tmp_path / f"in/{number % 2}/{number}.png", picture(number, 8, 8))
        (tmp_path / f"in/{number % 2}/{number}.log").touch()
    counts = in_parts()
    for versions in (1, 1, 2):
        words = [f"--input={tmp_path / 'in'}", f"--output={out}", "--versioned", "--no_report"]
        assert main(["convert", *words]) == 0
        assert len([name for name in os.listdir(out) if (out / name / "_SUCCESS").exists()]) == versions
        if len(counts) == 2:
            save(tmp_path / "in/1/5.png", picture(100, 9, 9))
    assert counts == [4, 4, 4]
