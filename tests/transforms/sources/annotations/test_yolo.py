"""YOLO's data files, images and labels as a source."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from beam_tfrecords.errors import SampleError
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.sources.annotations.yolo_labels import LabelFiles, count_keypoints, read_objects
from beam_tfrecords.transforms.sources.detect.judge import describe_unread
from tests.annotated_inputs import CATEGORIES, PICTURES, Picture, save_pictures, write_yolo, yolo_rows
from tests.each import each
from tests.refusals import Refusal, refuses

NAMES = dict(enumerate(CATEGORIES))
TRAIN = {name: PICTURES[name] for name in ("a.jpg", "b.jpg", "c.jpg")}
VALID = {"d.jpg": PICTURES["d.jpg"]}


@pytest.fixture
def data(tmp_path) -> Path:
    return write_yolo(tmp_path / "in", {"train": TRAIN, "valid": VALID})


def check(sample, name: str) -> None:
    picture, objects = PICTURES[name], sample.objects
    size = (picture.width, picture.height) * 2
    expected = [side / size[n] for _, box in picture.objects for n, side in enumerate(box)]
    assert objects.boxes == pytest.approx(expected, abs=1e-7)
    assert objects.labels == tuple(label for label, _ in picture.objects)
    assert objects.is_normalized


def test_images_of_all_splits_are_listed_with_their_objects(data, opened, listed):
    source = opened(data)
    samples = listed(source)
    assert source.name == "yolo"
    assert source.description.class_names == tuple(CATEGORIES)
    assert {key: sample.split for key, sample in samples.items()} == {
        **{f"train/images/{name}": "train" for name in TRAIN},
        "valid/images/d.jpg": "validation",
    }
    for key, sample in samples.items():
        check(sample, key.rpartition("/")[2])
        assert sample.size == Path(sample.uri).stat().st_size
    assert source.notes == ["1 of 4 images have no label file, and are background"]
    assert source.skipped.counts == {}


@pytest.mark.parametrize("path", ["{root}", "in", ".", "", "nowhere/at/all"])
def test_the_root_is_that_of_the_file_or_the_one_that_it_names(data, opened, listed, path):
    folder = data.parent.parent if path == "in" else data.parent
    text = data.read_text().replace("../", "")
    moved = folder / "coco.yml"
    moved.write_text(f"path: {path.format(root=data.parent)}\n{text}" if path else text)
    assert len(listed(opened(moved))) == 4


def test_the_request_names_the_root(data, tmp_path, opened, listed):
    (tmp_path / "x.yaml").write_text(data.read_text())
    with refuses(
        "outside_root", "input", "image_root", "allow_outside_root", says=["'../train/images'", "there is no "]
    ):
        opened(tmp_path / "x.yaml")
    assert len(listed(opened(tmp_path / "x.yaml", image_root=(str(data.parent),)))) == 4


def test_a_split_is_a_folder_a_list_or_several_of_both(tmp_path, opened, listed):
    save_pictures(tmp_path / "images/one", TRAIN)
    save_pictures(tmp_path / "images/two", PICTURES)
    for name, picture in PICTURES.items():
        path = tmp_path / "labels/two" / f"{Path(name).stem}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yolo_rows(picture))
    (tmp_path / "two.txt").write_text(f"./images/two/a.jpg\n\nimages/two/b.jpg\r\n{tmp_path}/images/two/none.jpg\n")
    (tmp_path / "test.txt").write_text("../../etc/passwd.jpg\nimages/two/d.jpg\n")
    (tmp_path / "data.yaml").write_text(
        "train: [images/one, two.txt]\nval:\ntest: test.txt\nnames: {0: person, 1: dog, 2: cat}\n"
    )
    source = opened(tmp_path / "data.yaml")
    samples = listed(source)
    assert {key: sample.split for key, sample in samples.items()} == {
        **{f"images/one/{name}": "train" for name in TRAIN},
        **{f"images/two/{name}": "train" for name in ("a.jpg", "b.jpg", "none.jpg")},
        "test.txt line 000000001": "test",
        "images/two/d.jpg": "test",
    }
    failures = {key: sample.failure[0] for key, sample in samples.items() if sample.failure}
    assert failures == {"images/two/none.jpg": "unreadable", "test.txt line 000000001": "outside_root"}
    check(samples["images/two/a.jpg"], "a.jpg")


@pytest.mark.parametrize("above", ["images", "images/coco", "x/images/y/images"])
@pytest.mark.parametrize("layout", ["train/{}", "{}/train", "train"])
def test_a_folder_images_above_the_root_names_no_images(tmp_path, opened, listed, above, layout):
    root = tmp_path / above / "in"
    images, labels = (root / layout.format(word) for word in ("images", "labels"))
    head, _, tail = str(root).rpartition("/images/")
    beside = Path(f"{head}/labels/{tail}", layout.format("images"))
    save_pictures(images, TRAIN)
    for folder, pictures in ((labels, TRAIN), (beside, dict.fromkeys(TRAIN, PICTURES["d.jpg"]))):
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            (folder / f"{Path(name).stem}.txt").write_text(yolo_rows(picture))
    data = root / "data.yaml"
    data.write_text(f"train: {layout.format('images')}\nnames: {{0: person, 1: dog, 2: cat}}\n")
    for key, sample in listed(opened(data)).items():
        check(sample, key.rpartition("/")[2])


def test_images_of_two_splits_are_in_the_first_alone(data, opened, listed):
    data.write_text("train: train/images\nval: train/images\nnames: [a, b, c]\n")
    source = opened(data)
    assert {sample.split for sample in listed(source).values()} == {"train"}
    assert source.notes[0] == "3 images of validation are named before, and are left out there"


def test_a_label_file_with_a_bad_row_rejects_its_image(data, opened, listed):
    labels = data.parent / "train/labels"
    (labels / "a.txt").write_text("0 0.5 0.5 0.1 0.1\n7 0.5 0.5 0.1 0.1\n")
    (labels / "b.txt").write_bytes(b"\xff\xfe0 0.5")
    failures = {key[-5:]: sample.failure for key, sample in listed(opened(data)).items() if sample.failure}
    assert failures == {
        "a.jpg": ("unknown_class", "a.txt, line 2: class 7; the data file names 0 to 2"),
        "b.jpg": ("invalid_row", "b.txt, not valid UTF-8"),
    }


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        ("0 0.5 0.5 0.5 0.25\n", (0.25, 0.375, 0.75, 0.625)),
        ("0.0\t5e-1 0.5 0.5 0.25", (0.25, 0.375, 0.75, 0.625)),
        ("0 0.125 0.25 0.5 0.75 0.25 1", (0.125, 0.25, 0.5, 1)),
        ("0 0 0 1 0 1 1 0 1", (0, 0, 1, 1)),
        ("\n  \n", ()),
    ],
)
def test_rows_are_boxes_or_polygons(text, boxes):
    assert read_objects(text, NAMES).boxes == boxes


def test_points_of_poses_are_not_those_of_a_polygon():
    row = "0 0.5 0.5 0.5 0.25 0.1 0.1 2 0.9 0.9 1"
    assert read_objects(row, NAMES, keypoints=6).boxes == (0.25, 0.375, 0.75, 0.625)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("0 0.5 0.5 0.5", "line 1: '0 0.5 0.5 0.5' is neither box nor polygon"),
        ("0 0.5 0.5 0.5 x", "is neither box nor polygon"),
        ("0 0.1 0.1 0.2 0.2 0.3", "is neither box nor polygon"),
        ("-1 0.5 0.5 0.1 0.1", "line 1: class -1; the data file names 0 to 2"),
        ("0.5 0.5 0.5 0.1 0.1", "class 0.5"),
        ("nan 0.5 0.5 0.1 0.1", "class nan"),
        ("1e400 0.5 0.5 0.1 0.1", "class 1e400"),
    ],
)
def test_other_rows_are_refused(row, problem):
    with pytest.raises(SampleError, match=problem):
        read_objects(row, NAMES)


@pytest.mark.parametrize(
    ("image", "labels"),
    [
        ("/d/images/train/1.jpg", "/d/labels/train/1.txt"),
        ("/images/d/images/1.v2.png", "/images/d/labels/1.v2.txt"),
        ("/d/train/1.jpg", "/d/train/1.txt"),
    ],
)
def test_the_label_file_of_an_image(image, labels):
    assert LabelFiles([]).path_of(image) == labels


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("names: [a]", Refusal("invalid_file", "input", says=["'train'", "'val'", "'test'"])),
        ("- a", Refusal("invalid_file", "input")),
        ("train: [", Refusal("invalid_file", "input")),
        ("train: train/images", Refusal("missing_class_names", "input", says=["'names'"])),
        ("train: train/images\nnames: [no]", Refusal("invalid_class_name", "input", says=["False", "'names'"])),
        ("train: train/images\nnames: {a: b}", Refusal("invalid_class_name", "input", says=["a text", "'names'"])),
        ("train: {a: b}\nnames: [a]", Refusal("invalid_file", "input", says=["'train'"])),
        ("train: nowhere\nnames: [a]", Refusal("not_found", "input", "image_root", says=["'nowhere'", "/in/nowhere"])),
    ],
)
def test_another_file_is_refused(data, opened, text, refusal):
    data.write_text(text)
    with refuses(refusal):
        opened(data)


def test_a_file_of_aliases_takes_no_memory(data, opened):
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    texts = {
        f"{bomb}train: *a11\nnames: [a]": "invalid_file",
        f"{bomb}train: train/images\nnames: *a11": "invalid_class_name",
        f"{bomb}train: [*a11]": "missing_class_names",
    }
    for text, code in texts.items():
        data.write_text(text)
        with refuses(code, "input"):
            opened(data)


@pytest.mark.parametrize("inputs", [["{data}", "{data}"], ["train={data}"]])
def test_a_data_file_is_the_only_input(data, opened, inputs):
    with refuses("several_inputs", "input"):
        opened(*(word.format(data=data) for word in inputs))


@each("sizes", [1, 2, 3, 4, 17])
@each("needs_polygons", [False, True])
def test_a_box_and_points_with_their_visibility_are_no_polygon(sizes, needs_polygons):
    points = " ".join(f"{0.3 + 0.4 * number / sizes} {0.5} {2 - number % 3}" for number in range(sizes))
    row = f"0 0.5 0.5 0.5 0.25 {points}"
    keypoints = count_keypoints([row, f"1 0.5 0.5 0.5 0.25{' 0' * 3 * sizes}"])
    assert keypoints == 3 * sizes
    objects = read_objects(row, NAMES, keypoints=keypoints, needs_polygons=needs_polygons)
    assert objects.boxes == (0.25, 0.375, 0.75, 0.625)
    assert objects.polygons == ((b"",) if needs_polygons else ())


@pytest.mark.parametrize(
    "row",
    [
        "0 0.1 0.2 0.9 0.2 0.9 0.8 0.5 0.9 0.1 0.8",
        "0 0 0 1 0 1 1 0 1 0 0",
        "0 0.5 0 1 0.5 1 1 0.5 1 0 0.5",
        "0 0.2 0.2 0.4 0.2 0.9 0.9 1 0.5 1 1",
    ],
)
def test_a_polygon_that_may_be_a_pose_is_none_among_polygons(row):
    assert count_keypoints([row, "0 0.1 0.1 0.9 0.2 0.5 0.9"]) == 0


@pytest.mark.parametrize("text", ["", "0 0.5 0.5 0.5 0.25", "0 0.5 0.5 0.5 0.25 0 0 0", "0 0.1 0.2 0.9 0.2 0.9 x 0.5"])
def test_without_a_labelled_keypoint_rows_may_be_polygons(text):
    assert count_keypoints([text]) == 0


@each(
    "row, has_visibility, expected",
    [
        ("0 0.5 0.5 0.5 0.25 0.5 0.25 2 0.25 0.5 0", True, [0.5, 0.25, 2, 0.25, 0.5, 0]),
        ("0 0.5 0.5 0.5 0.25 0.5 0.25 -1 0.5", False, [0.5, 0.25, 2, -1, 0.5, 0]),
        ("0 0.5 0.5 0.5 0.25", True, [0] * 6),
        ("0 0.5 0.5 0.5 0.25", False, [0] * 6),
    ],
)
def test_keypoints_of_a_pose_are_read(row, has_visibility, expected):
    keypoints, unread = 6 if has_visibility else 4, Counter()
    objects = read_objects(
        row, NAMES, keypoints=keypoints, has_visibility=has_visibility, needs_keypoints=True, unread=unread
    )
    assert [np.frombuffer(one, "<f4").tolist() for one in objects.keypoints] == [expected]
    assert objects.boxes == (0.25, 0.375, 0.75, 0.625)
    assert not unread


@each(
    "shape, values, is_there",
    [([2, 3], "0.4 0.5 2 0.6 0.5 1", True), ([2, 2], "0.4 0.5 0.6 0.5", True), ([2, 4], "", False)],
)
def test_the_data_file_says_the_keypoints(shape, values, is_there, tmp_path, opened, listed):
    data = write_yolo(tmp_path, {"train": TRAIN})
    data.write_text(f"{data.read_text()}\nkpt_shape: {shape}\n")
    for path in (tmp_path / "train/labels").iterdir():
        path.write_text(f"0 0.5 0.5 0.5 0.5 {values}\n")
    source = opened(data, needs_keypoints=True)
    if not is_there:
        with refuses("no_keypoints", "input", "layout"):
            listed(source)
        return
    for sample in listed(source).values():
        if not sample.objects.labels:
            continue
        points = np.frombuffer(sample.objects.keypoints[0], "<f4").reshape(2, 3)
        assert points[:, :2] == pytest.approx(np.array([[0.4, 0.5], [0.6, 0.5]]))


def test_a_polygon_among_poses_is_an_invalid_row():
    with pytest.raises(SampleError, match="is no box with 3 values of keypoints"):
        read_objects("0 0.1 0.1 0.9 0.2 0.5 0.9 0.1 0.1", NAMES, keypoints=3)


@pytest.mark.parametrize("row", ["0 0.1 0.2 0.9 0.2 0.9 0.8 0.5 0.9 0.1 0.8", "0 0 0 1 0 1 1 0 1 0 0"])
def test_a_polygon_of_five_points_is_one(row):
    values = [float(word) for word in row.split()[1:]]
    expected = (min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2]))
    assert read_objects(row, NAMES).boxes == expected


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        ("train/images", "train/labels_yolo"),
        ("train/images", "train/images"),
        ("train/Images", "train/Labels"),
        ("train/Images", "train/labels"),
        ("JPEGImages", "labels"),
        ("JPEGImages/train", "labels/train"),
        ("images/train", "labels_v2/train"),
        ("train", "labels/train"),
        ("train", "train/labels"),
        ("train", "labels"),
    ],
)
def test_labels_in_another_folder_are_found(tmp_path, opened, listed, images, labels):
    save_pictures(tmp_path / images, TRAIN)
    (tmp_path / labels).mkdir(parents=True, exist_ok=True)
    (tmp_path / labels / "classes.txt").write_text("person\ndog\ncat\n")
    for name, picture in TRAIN.items():
        (tmp_path / labels / f"{Path(name).stem}.txt").write_text(yolo_rows(picture))
    (tmp_path / "data.yaml").write_text(f"train: {images}\nnames: [person, dog, cat]\n")
    source = opened(tmp_path / "data.yaml")
    samples = listed(source)
    for name in TRAIN:
        check(samples[f"{images}/{name}"], name)
    assert all(note == f"the labels of {tmp_path / images} are read from {tmp_path / labels}" for note in source.notes)


def test_labels_that_may_be_in_two_folders_are_refused(data, opened):
    labels = data.parent / "train/labels"
    labels.rename(labels.with_name("labels_1"))
    (data.parent / "train/labels_2").mkdir()
    (data.parent / "train/labels_2/a.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    with refuses("misplaced_labels", says=["/labels_1", "/labels_2", "/train/labels"]):
        list(opened(data).samples())


def test_labels_beside_those_of_the_images_are_not_taken_for_background(data, opened, listed):
    (data.parent / "train/labels_old").mkdir()
    (data.parent / "train/labels_old/c.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    assert listed(opened(data))["train/images/c.jpg"].objects.labels == ()


def test_an_image_has_so_many_objects_at_most():
    with pytest.raises(SampleError, match="more than 100,000 objects in one image"):
        read_objects("0 .5 .5 .1 .1\n" * 900_000, NAMES)


CLASSES = "".join(f"{name}\n" for name in CATEGORIES)


@pytest.mark.parametrize(
    ("train", "valid", "labels", "lists"),
    [
        ("images/train", "images/val", "labels/", ["classes.txt"]),
        ("train/images", "valid/images", "", ["train/labels/classes.txt", "valid/labels/classes.txt"]),
        ("train", "valid", "", ["train/_darknet.labels", "valid/_darknet.labels"]),
        ("obj_train_data", "obj_valid_data", "", ["obj.names"]),
    ],
)
def test_a_folder_with_a_list_of_classes_is_read(tmp_path, opened, listed, train, valid, labels, lists):
    for folder, pictures in ((train, TRAIN), (valid, VALID)):
        save_pictures(tmp_path / folder, pictures)
        beside = tmp_path / (folder.replace("images", "labels"))
        beside.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            (beside / f"{Path(name).stem}.txt").write_text(yolo_rows(picture))
    for name in lists:
        (tmp_path / name).write_text(CLASSES)
    source = opened(tmp_path, source="yolo")
    samples = listed(source)
    assert source.description.class_names == tuple(CATEGORIES)
    split = "train" if train.startswith("obj") else "validation"
    expected = {**{f"{train}/{name}": "train" for name in TRAIN}, f"{valid}/d.jpg": split}
    assert {key: sample.split for key, sample in samples.items()} == expected
    for key, sample in samples.items():
        check(sample, key.rpartition("/")[2])


@each("class_names", [(), ("plane", "ship")])
def test_without_a_list_of_classes_they_are_numbers(class_names, tmp_path, opened, listed):
    save_pictures(tmp_path)
    for name in PICTURES:
        (tmp_path / f"{name[0]}.txt").write_text("1 0.1 0.1 0.9 0.2 0.5 0.9 0.1 0.8\n0 0.5 0.5 0.1 0.1\n")
    source = opened(tmp_path, source="yolo", class_names=class_names)
    assert [sample.objects.labels for sample in listed(source).values()] == [(1, 0)] * len(PICTURES)
    assert source.description.labels_may_be_indices
    assert any("list of the classes" in note for note in source.notes) is not bool(class_names)


def test_lists_of_other_classes_are_refused(tmp_path, opened):
    save_pictures(tmp_path)
    (tmp_path / "classes.txt").write_text("a\nb\n")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels/classes.txt").write_text("b\na\n")
    with refuses("class_names_differ", "input"):
        opened(tmp_path, source="yolo")


def test_images_beside_the_split_folders_are_refused(tmp_path, opened):
    for folder in ("train", "more"):
        save_pictures(tmp_path / folder)
    (tmp_path / "classes.txt").write_text(CLASSES)
    with refuses("images_outside_splits", "input", says=["more"]):
        opened(tmp_path, source="yolo")


@pytest.mark.parametrize("name", ["coco8.yaml", "my data.yml"])
def test_a_folder_may_have_a_data_file_of_any_name(data, opened, listed, name):
    data.rename(data.with_name(name))
    assert len(listed(opened(data.parent, source="yolo"))) == 4
    (data.parent / "other.yaml").write_text("train: train/images\nnames: [a]\n")
    with refuses("several_data_files", "input") as refused:
        opened(data.parent, source="yolo")
    assert len(refused.value.suggestions) == 2


@pytest.mark.parametrize("names", ["classes.names", "./classes.names", "lists/classes.names"])
def test_the_names_may_be_a_file(data, opened, names):
    path = data.parent / names
    path.parent.mkdir(exist_ok=True)
    path.write_text(CLASSES)
    data.write_text(f"train: train/images\nnames: {names}\n")
    assert opened(data).description.class_names == tuple(CATEGORIES)


@pytest.mark.parametrize("head", ["", "data/", "/home/someone/darknet/data/", "build/x64/data/"])
def test_the_data_file_of_darknet_is_read(tmp_path, opened, listed, head):
    """Its paths are relative to where Darknet was started, or those of another machine."""
    root = tmp_path / "data"
    save_pictures(root / "obj", PICTURES)
    for name, picture in PICTURES.items():
        (root / "obj" / f"{Path(name).stem}.txt").write_text(yolo_rows(picture))
    (root / "obj.names").write_text(CLASSES)
    (root / "train.txt").write_text("".join(f"{head}obj/{name}\n" for name in TRAIN))
    (root / "test.txt").write_text("".join(f"{head}obj/{name}\n" for name in VALID))
    lines = [
        "classes = 3",
        f"train={head}train.txt",
        f"valid = {head}test.txt",
        f"names = {head}obj.names",
        "backup = b/",
    ]
    (root / "obj.data").write_text("\n".join(lines))
    source = opened(root / "obj.data")
    samples = listed(source)
    assert source.description.class_names == tuple(CATEGORIES)
    expected = {**{f"obj/{name}": "train" for name in TRAIN}, "obj/d.jpg": "validation"}
    assert {key: sample.split for key, sample in samples.items()} == expected
    for key, sample in samples.items():
        check(sample, key.rpartition("/")[2])
    assert [note.partition(" is taken")[0] for note in source.notes if "taken" in note] == (
        [f"train.txt: {head}obj/a.jpg", f"test.txt: {head}obj/d.jpg"] if head else []
    )


@pytest.mark.parametrize("seed", range(4))
def test_boxes_are_those_of_the_definition(tmp_path, opened, seed):
    """A row is a class, then the centre and the sizes as shares; or a class and the corners of a polygon."""
    rng = random.Random(seed)
    pictures = {f"{number}.jpg": Picture(20, 30) for number in range(12)}
    path = write_yolo(tmp_path, {"train": pictures})
    expected = {}
    for name in pictures:
        rows, boxes, labels = [], [], []
        for _ in range(rng.randrange(1, 5)):
            corners = [round(rng.random(), 6) for _ in range(2 * rng.choice([2, 3, 4, 5, 8, 11]))]
            labels.append(rng.randrange(3))
            if len(corners) == 4:
                x, y, width, height = corners
                boxes += [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
            else:
                boxes += [min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2])]
            rows.append(" ".join(map(str, [labels[-1], *corners])))
        label = tmp_path / "train/labels" / f"{Path(name).stem}.txt"
        label.parent.mkdir(exist_ok=True)
        label.write_text(rng.choice(["\n", "\r\n"]).join(rows))
        expected[f"train/images/{name}"] = boxes, [NAMES[one] for one in labels]
    for sample in opened(path).samples():
        boxes, labels = expected.pop(sample.key)
        assert sample.objects.boxes == pytest.approx(boxes)
        assert list(sample.objects.labels) == labels
    assert not expected


@pytest.mark.parametrize("name", ["a.yaml", "z.yml", "z.data"])
def test_a_file_of_other_settings_beside_the_data_file_is_left(data, opened, listed, name):
    (data.parent / name).write_text("lr: 0.1\nepochs: 3\n")
    assert len(listed(opened(data.parent, source="yolo"))) == len(TRAIN) + len(VALID)


def test_only_files_with_the_extension_of_an_image_are_samples(data, opened, listed):
    folder = data.parent / "train/images"
    for name in ("README", "notes", "a.md", "b.jpg.part", ".hidden"):
        (folder / name).write_bytes(b"a text")
    source = opened(data)
    assert {key.rpartition("/")[2] for key in listed(source)} == {*TRAIN, *VALID}
    assert sum(source.skipped.counts.values()) == 5


def test_parts_of_objects_that_are_not_read_are_counted():
    unread = Counter()
    read_objects("0 0.1 0.1 0.9 0.2 0.5 0.9\n0 0.5 0.5 0.1 0.1", NAMES, unread=unread)
    read_objects("0 0.5 0.5 0.5 0.25 0.5 0.5 2", NAMES, keypoints=3, unread=unread)
    assert unread == {Content.POLYGONS: 1, Content.KEYPOINTS: 1}
    polygons, keypoints = describe_unread(unread, {Content.POLYGONS})
    remedy = "use `layout=detection_polygons` or `layout=detection_masks`"
    assert polygons == f"1 annotations have polygons, which are not stored; {remedy}"
    assert keypoints == "1 annotations have keypoints, which are not stored"
    read_objects("0 0.1 0.1 0.9 0.2 0.5 0.9", NAMES, needs_polygons=True, unread=unread)
    assert unread.total() == 2
