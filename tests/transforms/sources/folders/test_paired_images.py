"""Samples of several images that have the same name in several folders."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from tests.refusals import refuses
from tests.source_requests import open_source


def list_pairs(folder: Path, files: Mapping[str, Sequence[str]], **settings: object) -> list[SampleRef]:
    """Writes name of a folder -> names of its files, and lists the samples."""
    for name, names in files.items():
        (folder / name).mkdir(parents=True)
        for one in names:
            (folder / name / one).parent.mkdir(exist_ok=True)
            (folder / name / one).write_bytes(one.encode())
    images = tuple(f"{name}={folder / name}" for name in files)
    return list(open_source(*(folder / name for name in files), images=images, **settings).samples())


def pairs_of(refs: Sequence[SampleRef]) -> list[list[str]]:
    return [[Path(image.name).name for image in ref.images.values()] for ref in refs]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (["1.png", "2.png", "3.png"], ["1.png", "2.png", "3.png"]),
        (["1.png", "2.png", "3.png"], ["1.jpg", "2.jpg", "3.jpg"]),
        (["1_left.png", "2_left.png", "3_left.png"], ["1_right.png", "2_right.png", "3_right.png"]),
        (["im1.png", "im2.png", "im3.png"], ["disp1.png", "disp2.png", "disp3.png"]),
        (["0001.png", "0002.png", "0003.png"], ["0001x4.png", "0002x4.png", "0003x4.png"]),
        (["a/1.png", "a/2.png", "b/1.png"], ["a/1.png", "a/2.png", "b/1.png"]),
    ],
)
def test_images_of_the_same_names_are_one_sample(tmp_path, left, right):
    refs = list_pairs(tmp_path, {"left": left, "right": right})
    assert [list(ref.images) for ref in refs] == [["left", "right"]] * 3
    assert pairs_of(refs) == [[Path(one).name, Path(other).name] for one, other in zip(left, right, strict=True)]
    assert [ref.key for ref in refs] == left
    assert not any(ref.failure for ref in refs)


def test_a_single_image_has_nothing_in_common_with_others(tmp_path):
    with refuses("unpaired_images", "images", says=["0 names are in all of these folders"]):
        list_pairs(tmp_path, {"left": ["cat.jpg"], "right": ["dog.jpg"]})


def test_names_decide_and_never_the_order(tmp_path):
    """Any common names, in any order of files, with any ends of the folders."""
    chance = random.Random(3)
    for number in range(30):
        stems = sorted({f"{chance.choice('abc')}{chance.randrange(1000)}" for _ in range(chance.randint(2, 9))})
        ends = {name: chance.choice(("", "_x", "-2", f"_{name}")) for name in ("left", "right", "depth")}
        files = {name: [f"{stem}{end}.png" for stem in stems] for name, end in ends.items()}
        refs = list_pairs(tmp_path / str(number), files)
        assert pairs_of(refs) == [[f"{stem}{end}.png" for end in ends.values()] for stem in stems]


def test_an_image_without_a_partner_or_with_two_is_a_failure(tmp_path):
    refs = list_pairs(tmp_path, {"left": ["1.png", "2.png", "3.png"], "right": ["1.png", "2.png", "2.jpg", "4.png"]})
    assert [ref.key for ref in refs] == ["1.png", "2.png", "3.png", "4.png"]
    assert [ref.failure and ref.failure[1].split(":")[0] for ref in refs] == [None, "right", "right", "left"]
    assert "2.jpg" in refs[1].failure[1]


def test_folders_of_other_names_are_refused_with_their_counts(tmp_path):
    left = [f"{number}.png" for number in range(10)]
    right = [f"{number}_{view}.png" for number in range(10) for view in range(4)]
    with refuses("unpaired_images", "images", says=["left has 10", "right has 40", "0 names"]):
        list_pairs(tmp_path, {"left": left, "right": right})


def test_a_pattern_gives_class_and_group(tmp_path):
    names = ["cat_1.png", "dog_2.png"]
    pattern = r"(?P<label>cat|dog)_(?P<group>\d)"
    refs = list_pairs(tmp_path, {"left": names, "right": names}, label_pattern=pattern)
    assert [(ref.label, ref.group) for ref in refs] == [("cat", "1"), ("dog", "2")]


def test_a_dataset_of_pairs_has_a_feature_for_each_folder(tmp_path, build, photos):
    for side in ("left", "right"):
        for split in ("train", "test"):
            shutil.copytree(photos / "cat", tmp_path / side / split)
    out = build(tmp_path / "out", f"--images=left={tmp_path}/left,right={tmp_path}/right", "--image_size=32")
    dataset = open_dataset(out)
    assert dataset.splits.keys() == {"train", "test"}
    assert [feature.name for feature in dataset.layout.features] == ["filename", "left", "right"]
    record = next(iter(dataset.records("train")))
    assert (record["left"] == record["right"]).all()


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--images=left=L"], "invalid_value"),
        (["--images=left=L,left=R"], "invalid_value"),
        (["--images=left=L,right=missing"], "not_found"),
        (["--images=left=L,right=R", "--input=L"], "conflicting_settings"),
        (["--images=left=L,right=R", "--source=csv"], "setting_not_applicable"),
        (["--source=paired_images", "--input=L"], "conflicting_settings"),
        (["--images=left=L,right=R", "--mask_root=L"], "setting_not_applicable"),
    ],
)
def test_wrong_folders_are_refused(tmp_path, monkeypatch, convert, flags, code):
    monkeypatch.chdir(tmp_path)
    for name in "LR":
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    ran = convert(*flags, "--output=out")
    assert ran.code == 2
    assert ran.refusal.code == code
