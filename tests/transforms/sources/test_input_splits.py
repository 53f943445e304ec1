"""Inputs that are splits: the request says which (`train=photos/`), or the names of all of them do."""

from __future__ import annotations

import tarfile

import pytest

from tests.refusals import refuses
from tests.transforms.sources.conftest import infer


@pytest.fixture
def place(tmp_path, opened, listed, read_containers):
    """Key -> (label, split) of what some inputs list, by their names below tmp_path, and the notes."""

    def read(*inputs, **fields):
        words = [f"{split}{sign}{tmp_path / name}" for split, sign, name in (word.rpartition("=") for word in inputs)]
        source = opened(*words, **fields)
        is_folder = source.containers() is None
        samples = listed(source).values() if is_folder else infer(source, *read_containers(source))
        return {sample.key: (sample.label, sample.split) for sample in samples}, source.notes

    return read


@pytest.fixture
def pack(tmp_path):
    """Writes archives: name -> names of their members."""

    def write(archives):
        for name, members in archives.items():
            with tarfile.open(tmp_path / name, "w") as archive:
                for member in members:
                    archive.addfile(tarfile.TarInfo(member))

    return write


def test_a_rejected_row_is_in_the_split_of_its_table(tmp_path, opened, listed):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("id,x,label\n1,2,cat\n,2,cat\n1\n")
    source = opened(f"train={tmp_path}/a.csv", f"test={tmp_path}/b.csv", key_column="id", needs_image=False)
    assert [(ref.split, ref.failure is None) for ref in listed(source).values()] == [
        (split, is_read) for split in ("train", "test") for is_read in (True, False, False)
    ]


def test_folders_may_say_their_splits(touch, place):
    touch("a/photos/cat/1.jpg", "b/photos/cat/1.jpg", "b/photos/dog/2.jpg")
    assert place("train=a/photos", "validation=b/photos") == (
        {
            "train/cat/1.jpg": ("cat", "train"),
            "validation/cat/1.jpg": ("cat", "validation"),
            "validation/dog/2.jpg": ("dog", "validation"),
        },
        [],
    )
    assert place("val=b/photos")[0] == {"cat/1.jpg": ("cat", "validation"), "dog/2.jpg": ("dog", "validation")}


@pytest.mark.parametrize("fields", [{"label_pattern": "(?P<label>cat)"}, {"needs_label": False}])
def test_folders_say_their_splits_without_class_folders_too(touch, place, fields):
    touch("a/cat_1.jpg", "b/cat_2.jpg")
    samples, _ = place("train=a", "test=b", **fields)
    assert {key: split for key, (_, split) in samples.items()} == {"train/cat_1.jpg": "train", "test/cat_2.jpg": "test"}


def test_globs_may_say_their_splits(touch, place, pack, tmp_path):
    pack({"a1.tar": ["cat/1.jpg"], "a2.tar": ["dog/1.jpg"], "b.tar": ["cat/1.jpg"]})
    assert place("train=a*.tar", "test=b.tar")[0] == {
        "a1.tar/cat/1.jpg": ("cat", "train"),
        "a2.tar/dog/1.jpg": ("dog", "train"),
        "test/cat/1.jpg": ("cat", "test"),
    }
    for name in ("t1.csv", "t2.csv", "u.csv"):
        (tmp_path / name).write_text("label\ncat\n")
    assert [split for _, split in place("train=t*.csv", "test=u.csv")[0].values()] == ["train", "train", "test"]
    touch("p/cat/1.jpg", "q/cat/1.jpg")
    assert [split for _, split in place("train=p/**/*.jpg", "test=q/**/*.jpg")[0].values()] == ["train", "test"]


def test_one_archive_may_say_its_split(place, pack):
    pack({"photos.tar": ["cat/1.jpg", "dog/2.jpg"]})
    assert place("test=photos.tar")[0] == {"cat/1.jpg": ("cat", "test"), "dog/2.jpg": ("dog", "test")}


@pytest.mark.parametrize(
    ("first", "second"), [("train", "val"), ("seg_train", "seg_val"), ("train2017", "val2017"), ("Train", "valid")]
)
def test_folders_and_archives_that_are_named_like_splits_are_splits(touch, place, pack, first, second):
    touch(f"{first}/cat/1.jpg", f"{second}/cat/1.jpg")
    samples, notes = place(first, second)
    assert samples == {f"{first}/cat/1.jpg": ("cat", "train"), f"{second}/cat/1.jpg": ("cat", "validation")}
    assert notes == [f"splits from the names of the inputs: {first} is train, {second} is validation"]
    pack({f"{first}.tar": ["cat/1.jpg"], f"{second}.tar": ["cat/1.jpg"]})
    samples, notes = place(f"{first}.tar", f"{second}.tar")
    assert samples == {f"{first}.tar/cat/1.jpg": ("cat", "train"), f"{second}.tar/cat/1.jpg": ("cat", "validation")}
    assert notes == [f"splits from the names of the inputs: {first}.tar is train, {second}.tar is validation"]


def test_archives_may_hold_the_folders_of_their_splits(place, pack):
    pack({"train.tar": ["train/cat/1.jpg"], "test.tar": ["test/cat/1.jpg"]})
    assert [split for _, split in place("train.tar", "test.tar")[0].values()] == ["train", "test"]
    assert [split for _, split in place("train=train.tar", "test=test.tar")[0].values()] == ["train", "test"]


@pytest.mark.parametrize("names", [("train", "more"), ("train", "training")])
def test_inputs_are_no_splits_if_only_some_are_named_like_them_or_all_like_one(touch, place, names):
    touch(*(f"{name}/cat/1.jpg" for name in names))
    samples, notes = place(*names)
    assert ([split for _, split in samples.values()], notes) == ([None, None], [])


def test_an_input_that_says_its_split_and_holds_another_is_refused(touch, place, pack):
    touch("photos/train/cat/1.jpg", "photos/test/cat/1.jpg")
    with refuses("contradicting_splits", says=["train", "test/cat"]):
        place("train=photos")
    pack({"a.tar": ["train/cat/1.jpg", "test/cat/1.jpg"], "b.tar": ["test/cat/1.jpg"]})
    with refuses("contradicting_splits", says=["train/test/cat"]):
        place("train=a.tar", "test=b.tar")


def test_the_name_of_an_input_that_says_its_split_is_not_offered_as_a_class(touch, place):
    touch("cat/1x.jpg", "dog/2y.jpg")
    with refuses("no_class_folders", "input", "label_pattern", says=["directly in it"]) as refused:
        place("train=cat", "test=dog")
    assert [suggestion.settings["layout"] for suggestion in refused.value.suggestions] == ["image"]
    with refuses("no_class_folders", "input", "label_pattern", says=["directly in it"]) as refused:
        place("cat", "dog")
    assert "label_pattern" in refused.value.suggestions[0].settings
