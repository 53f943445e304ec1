"""Folders that are splits, classes or wrappers of classes are told apart, and refused where names do not tell."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tarfile

import pytest
from PIL import Image

from beam_tfrecords.transforms.sources.detect.interpretation import Request, UnclearError
from beam_tfrecords.transforms.sources.detect.layouts import LAYOUTS, Level
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.splits import Splits, split_of_folder
from tests.each import each
from tests.refusals import refuses
from tests.source_requests import FRACTIONS, make_request
from tests.transforms.sources.conftest import infer


def labels(samples):
    return {key: sample.label for key, sample in samples.items()}


def splits(samples):
    return {key: sample.split for key, sample in samples.items()}


def settings_of(refused):
    """The settings that the suggestions of a refusal make."""
    return [
        {name: value for name, value in suggestion.settings.items() if value is not None}
        for suggestion in refused.value.suggestions
    ]


@pytest.fixture
def check_tar(tmp_path, opened, read_containers):
    """Lists an archive with members of these names as a build does; returns its samples by key."""

    def check(*names, **fields):
        with tarfile.open(tmp_path / "photos.tar", "w") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(name))
        source = opened(tmp_path / "photos.tar", **fields)
        samples, skipped = read_containers(source)
        return {sample.key: sample for sample in infer(source, samples, skipped)}

    return check


PAIRS = [
    ("train", "valid", "train", "validation"),
    ("Train", "Test", "train", "test"),
    ("training", "testing", "train", "test"),
    ("train", "dev", "train", "validation"),
    ("trn", "tst", "train", "test"),
    ("train", "holdout", "train", "test"),
    ("TRAIN", "Eval", "train", "validation"),
]


@pytest.mark.parametrize(("first", "second", "first_split", "second_split"), PAIRS)
def test_the_usual_names_of_split_folders_are_known_in_any_case(
    touch, opened, listed, first, second, first_split, second_split
):
    samples = listed(opened(touch(f"{first}/cat/1.jpg", f"{first}/dog/1.jpg", f"{second}/dog/2.jpg")))
    assert set(labels(samples).values()) == {"cat", "dog"}
    assert splits(samples)[f"{first}/cat/1.jpg"] == first_split
    assert splits(samples)[f"{second}/dog/2.jpg"] == second_split


@pytest.mark.parametrize(("first", "second", "first_split", "second_split"), PAIRS)
def test_the_usual_names_of_split_folders_are_known_inside_archives(
    check_tar, first, second, first_split, second_split
):
    samples = check_tar(f"{first}/cat/1.jpg", f"{first}/dog/1.jpg", f"{second}/dog/2.jpg")
    assert set(labels(samples).values()) == {"cat", "dog"}
    assert (splits(samples)[f"{first}/cat/1.jpg"], splits(samples)[f"{second}/dog/2.jpg"]) == (
        first_split,
        second_split,
    )


UNCLEAR = [
    (("train/cat/1.jpg", "train/dog/1.jpg", "unlabelled_part/cat/2.jpg"), {"splits": "train=train"}),
    (
        ("train2017/cat/1.jpg", "train2017/dog/1.jpg", "val2017/cat/2.jpg"),
        {"splits": "train=train2017,validation=val2017"},
    ),
    (
        ("seg_train/cat/1.jpg", "seg_train/dog/1.jpg", "seg_test/cat/2.jpg", "seg_pred/cat/3.jpg"),
        {"splits": "train=seg_train,test=seg_test"},
    ),
    (("train/cat/1.jpg", "train/dog/1.jpg", "test_images/cat/2.jpg"), {"splits": "train=train,test=test_images"}),
    (("train/1.jpg", "other/2.jpg"), {"class_names": "other,train"}),
    (
        ("test/cat/1.jpg", "test/dog/1.jpg", "part1/cat/2.jpg", "part2/dog/2.jpg", "part3/dog/2.jpg"),
        {"splits": "test=test"},
    ),
]


@pytest.mark.parametrize(("names", "first"), UNCLEAR)
def test_folders_that_look_like_splits_but_are_not_all_known_are_refused(touch, opened, listed, names, first):
    with refuses("split_or_class", "input", says=["look like splits"]) as refused:
        listed(opened(touch(*names)))
    assert settings_of(refused)[0] == first


@pytest.mark.parametrize(("names", "first"), UNCLEAR)
def test_folders_inside_archives_that_look_like_splits_but_are_not_all_known_are_refused(check_tar, names, first):
    with refuses("split_or_class", "input", says=["look like splits"]) as refused:
        check_tar(*names)
    assert settings_of(refused)[0] == first


def test_the_message_says_how_to_name_the_splits(touch, opened, listed):
    root = touch("train2017/cat/1.jpg", "val2017/cat/2.jpg", "val2017/dog/2.jpg")
    with refuses("split_or_class", "input", says=["splits=train=train2017,validation=val2017"]):
        listed(opened(root))
    samples = listed(opened(root, splits=Splits(folders={"train2017": "train", "val2017": "validation"})))
    assert set(splits(samples).values()) == {"train", "validation"}


@pytest.mark.parametrize("name", ["train", "tr", "Train"])
def test_a_train_beside_many_classes_is_a_class(touch, opened, listed, check_tar, name):
    names = (f"{name}/1.jpg", "bus/1.jpg", "car/1.jpg", "tram/1.jpg", "test_tube/1.jpg", "train_station/1.jpg")
    for samples in (listed(opened(touch(*names))), check_tar(*names)):
        assert labels(samples) == {path: path.split("/")[0] for path in names}
        assert set(splits(samples).values()) == {None}


@pytest.mark.parametrize("name", ["test", "dev", "Test", "val"])
def test_a_split_that_is_no_thing_beside_classes_is_refused(touch, opened, listed, check_tar, name):
    names = ("bus/1.jpg", "car/1.jpg", "tram/1.jpg", f"{name}/1.jpg")
    for read in (lambda: listed(opened(touch(*names))), lambda: check_tar(*names)):
        with refuses("split_or_class", "input", says=[f"the folder {name} "]) as refused:
            read()
        assert settings_of(refused) == [{"exclude": [f"{name}/**"]}, {"layout": "image"}]


def test_class_names_say_that_folders_called_like_splits_are_classes(touch, opened, listed, check_tar):
    names = ("train/a/1.jpg", "bus/1.jpg")
    for samples in (
        listed(opened(touch(*names), class_names=("bus", "train"))),
        check_tar(*names, class_names=("bus", "train")),
    ):
        assert labels(samples) == {"train/a/1.jpg": "train", "bus/1.jpg": "bus"}


def test_a_nested_class_called_train_is_not_silently_a_split(touch, opened, listed, check_tar):
    names = ("train/old/1.jpg", "bus/new/1.jpg", "car/1.jpg", "tram/1.jpg")
    for read in (lambda: listed(opened(touch(*names))), lambda: check_tar(*names)):
        with refuses("split_or_class", "input", says=["the folder train", "class_names=bus,car,train,tram"]):
            read()


def test_fractions_of_an_input_with_split_folders_are_refused(touch, opened, listed, check_tar):
    names = ("train/cat/1.jpg", "train/dog/1.jpg", "test/cat/2.jpg", "test/dog/2.jpg")
    with refuses("input_has_splits", "input", "splits", says=["test, train", "/test, ", "/train`"]):
        listed(opened(touch(*names), splits=FRACTIONS))
    with refuses("input_has_splits", "input", "splits", says=["test, train", "#/test, ", "#/train`"]):
        check_tar(*names, splits=FRACTIONS)


def test_split_folders_given_as_inputs_of_their_own_may_be_divided_anew(touch, opened, listed):
    root = touch("train/cat/1.jpg", "test/cat/2.jpg")
    samples = listed(opened(root / "train", root / "test", splits=FRACTIONS))
    assert labels(samples) == {"train/cat/1.jpg": "cat", "test/cat/2.jpg": "cat"}


def test_fractions_with_a_pattern_or_without_labels_may_cross_split_folders(touch, opened, listed):
    root = touch("train/cat/1.jpg", "test/cat/2.jpg")
    samples = listed(opened(root, splits=FRACTIONS, label_pattern="/(?P<label>cat)/"))
    assert set(labels(samples).values()) == {"cat"}
    assert len(listed(opened(root, splits=FRACTIONS, needs_label=False))) == 2


# A folder around the class folders

WRAPPED = [
    ("images/cat/1.jpg", "images/dog/2.jpg"),
    ("a/b/images/cat/1.jpg", "a/b/images/dog/2.jpg"),
    ("photos/train/cat/1.jpg", "photos/train/dog/1.jpg", "photos/test/cat/2.jpg"),
    ("any/train/cat/1.jpg", "any/train/dog/1.jpg", "any/test/cat/2.jpg"),
    ("train/images/cat/1.jpg", "train/images/dog/1.jpg", "test/images/dog/2.jpg"),
    ("flowers/flowers/cat/1.jpg", "flowers/flowers/dog/1.jpg"),
]


@pytest.mark.parametrize("names", WRAPPED)
def test_a_folder_that_only_wraps_the_classes_is_no_class(touch, opened, listed, check_tar, names):
    source = opened(touch(*names))
    for samples in (listed(source), check_tar(*names)):
        assert labels(samples) == {path: path.split("/")[-2] for path in names}
        assert splits(samples) == {path: next((s for s in ("train", "test") if s in path), None) for path in names}
    assert "only wraps other folders; `label_pattern` or `class_names` says otherwise" in source.notes[0]


def test_a_folder_around_classes_whose_name_says_nothing_is_refused(touch, opened, listed, check_tar):
    names = ("cat/2020/1.jpg", "cat/2021/2.jpg")
    root = touch(*names)
    with refuses("single_class", "input", says=["2020, 2021"]) as refused:
        listed(opened(root))
    pattern = "^[^/]+/(?P<label>[^/]+)/"
    settings = settings_of(refused)
    assert settings == [{"input": f"{root}/cat"}, {"label_pattern": pattern}, {"class_names": "cat"}]
    assert set(labels(listed(opened(root, label_pattern=pattern))).values()) == {"2020", "2021"}
    with refuses("single_class", "input") as refused:
        check_tar(*names)
    first, *settings = settings_of(refused)
    assert first["input"].endswith(".tar#/cat")
    assert settings == [{"label_pattern": pattern}, {"class_names": "cat"}]


def test_class_names_say_that_a_single_class_is_meant(touch, opened, listed, check_tar):
    names = ("images/cat/1.jpg", "images/dog/2.jpg")
    assert set(labels(listed(opened(touch(*names), class_names=("images",)))).values()) == {"images"}
    assert set(labels(check_tar(*names, class_names=("images",))).values()) == {"images"}


def test_a_single_class_without_folders_below_it_is_a_class(touch, opened, listed):
    assert set(labels(listed(opened(touch("cat/1.jpg", "cat/2020/2.jpg", "notes/a.txt")))).values()) == {"cat"}


def test_one_damaged_archive_does_not_change_what_the_folders_mean(tmp_path, opened, read_containers):
    for number in range(2):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as archive:
            for name in ("images/cat/1.jpg", "images/dog/2.jpg"):
                archive.addfile(tarfile.TarInfo(name))
    (tmp_path / "2.tar").write_bytes(b"no archive")
    source = opened(tmp_path / "*.tar")
    samples, skipped = read_containers(source)
    inferred = infer(source, samples, skipped)
    assert [sample.label for sample in inferred if sample.failure is None] == ["cat", "dog"] * 2


@each("layout", LAYOUTS, ids=lambda layout: layout.match.__name__)
def test_each_layout_is_the_first_that_matches_its_example(layout):
    folders = FolderSummary()
    for name in layout.example.split():
        folders.add_image(name)
    names = ("dog",) if "depth" in layout.example else ()
    request = Request(*make_request("/photos", class_names=names))
    splits = {name: split for name in folders.tree().below("") if (split := split_of_folder(name))}
    level = Level(folders.tree(), request, splits or {"": None}, [])
    for one in LAYOUTS[: LAYOUTS.index(layout)]:
        assert one.match(level) is None
    with contextlib.suppress(UnclearError):
        assert layout.match(level) is not None


def test_folders_that_may_be_classes_are_named_where_the_layout_has_no_labels(touch, opened, listed):
    source = opened(touch("train/cat/1.jpg", "train/dog/2.jpg", "test/cat/3.jpg"), needs_label=False)
    listed(source)
    assert any("does not store the folders cat, dog, which may be classes" in note for note in source.notes)


@pytest.mark.parametrize("names", [("rgb", "thermal"), ("before", "after"), ("fundus", "oct")])
def test_images_of_the_same_numbers_in_two_folders_may_be_pairs(names, touch, opened, listed):
    root = touch(*(f"{name}/{number:03}.jpg" for name in names for number in range(9)))
    with refuses("images_and_masks", "input", "class_names", says=names) as refused:
        listed(opened(root))
    offered = [one.settings for one in refused.value.suggestions]
    assert ",".join(f"{name}={root / name}" for name in sorted(names)) in [one.get("images") for one in offered]
    assert set(labels(listed(opened(root, class_names=names))).values()) == {*names}
    # Without labels, each of the two would be a sample of its own.
    with refuses("images_and_masks", "input", "class_names"):
        listed(opened(root, needs_label=False))


@pytest.mark.parametrize(
    "names", [("left", "right"), ("im_before", "im_after"), ("HR", "LR_x2"), ("edges", "sketches")]
)
def test_folders_named_for_views_of_the_same_things_may_be_pairs(names, touch, opened, listed):
    ends = dict(zip(names, ("", "x4"), strict=True))
    for below in ("", "train/", "cat/"):
        root = touch(*(f"{name}/{below}{n}{end}.jpg" for name, end in ends.items() for n in range(1, 4)))
        with refuses("images_and_masks", "input", "class_names", says=names):
            listed(opened(root))
        shutil.rmtree(root)


def test_letters_are_classes_unless_they_are_a_and_b_with_images_of_the_same_names(touch, opened, listed):
    with refuses("images_and_masks", "input", "class_names", says=["A", "B"]):
        listed(opened(touch(*(f"{name}/{n}.jpg" for name in "AB" for n in range(1, 4)))))


def test_images_of_the_same_names_in_several_folders_are_views_of_one_thing(touch, opened, listed):
    root = touch(*(f"{view}/{stem}.png" for view in ("rgb", "normals", "depths") for stem in ("f3a", "b2c", "e71")))
    with refuses("images_and_masks", "input"):
        listed(opened(root))


def test_images_of_the_same_numbers_and_other_proportions_are_photos_of_two_classes(tmp_path, opened, listed):
    for name, number in itertools.product(("cat", "dog"), range(9)):
        path = tmp_path / name / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("L", (20 + number * (name == "dog"), 20)).save(path)
    assert set(labels(listed(opened(tmp_path))).values()) == {"cat", "dog"}


@pytest.mark.parametrize("is_packed", [False, True])
def test_images_without_labels_name_the_annotations_that_are_left_out(
    is_packed, touch, opened, listed, read_containers, tmp_path
):
    root = touch(*(f"in/{folder}/{n}.{kind}" for folder, kind in (("images", "jpg"), ("labels", "txt")) for n in "abc"))
    touch("in/train.csv", "in/boxes.jsonl")
    if is_packed:
        with tarfile.open(tmp_path / "in.tar", "w") as archive:
            archive.add(root / "in", "in")
        source = opened(tmp_path / "in.tar", needs_label=False)
        infer(source, *read_containers(source))
    else:
        source = opened(root / "in", needs_label=False)
        listed(source)
    said = "\n".join(source.notes)
    for word in ("labels no", "annotations of YOLO", "polygons", "keypoints", "train.csv", "boxes.jsonl"):
        assert word in said.replace("stores no labels", "labels no"), said
