"""Files of COCO annotations as a source."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from beam_tfrecords.errors import BuildError
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import unpack_polygons
from beam_tfrecords.transforms.splits import Splits
from tests.annotated_inputs import CATEGORIES, PICTURES, coco_of, save_pictures, write_coco
from tests.converting import repacked
from tests.refusals import Refusal, refuses
from tests.source_requests import FRACTIONS


@pytest.fixture
def images(tmp_path) -> Path:
    save_pictures(tmp_path)
    return tmp_path


def flat(name: str) -> tuple[float, ...]:
    return tuple(side for _, box in PICTURES[name].objects for side in box)


def test_every_image_is_listed_with_its_objects_and_the_classes_by_their_ids(images, opened, listed):
    source = opened(write_coco(images / "instances.json"))
    samples = listed(source)
    assert source.name == "coco"
    assert source.description.class_names == ("person", "dog", "cat")
    assert list(samples) == list(PICTURES)
    for name, sample in samples.items():
        picture = PICTURES[name]
        assert sample.objects.boxes == pytest.approx(flat(name))
        assert sample.objects.labels == tuple(label for label, _ in picture.objects)
        assert sample.objects.size == (picture.width, picture.height)
        assert (sample.uri, sample.split, sample.failure) == (str(images / name), None, None)
        assert sample.size == (images / name).stat().st_size
    assert samples["b.jpg"].objects.image_id == "8"
    assert samples["a.jpg"].objects.values == {"area": (300, 667.5), "is_crowd": (0, 1)}
    assert samples["c.jpg"].objects.boxes == ()
    assert source.notes == []


def test_the_objects_are_those_that_pycocotools_reads(images, opened, listed):
    coco = pytest.importorskip("pycocotools.coco", reason="needs pycocotools").COCO
    rng = random.Random(3)
    content = coco_of()
    content["annotations"] = [
        {**rng.choice(content["annotations"]), "id": number, "image_id": rng.choice(content["images"])["id"]}
        for number in range(200)
    ]
    for array in ("annotations", "images", "categories"):
        rng.shuffle(content[array])
    path = images / "instances.json"
    path.write_text(json.dumps({name: content[name] for name in rng.sample(sorted(content), len(content))}))
    oracle, samples = coco(path), listed(opened(path))
    names = {category["id"]: category["name"] for category in oracle.loadCats(oracle.getCatIds())}
    assert len(samples) == len(oracle.getImgIds())
    for image in oracle.loadImgs(oracle.getImgIds()):
        objects = samples[image["file_name"]].objects
        found = oracle.loadAnns(oracle.getAnnIds(imgIds=image["id"]))
        boxes = [(x, y, x + width, y + height) for x, y, width, height in (one["bbox"] for one in found)]
        assert objects.boxes == tuple(side for box in boxes for side in box)
        assert objects.labels == tuple(names[one["category_id"]] for one in found)
        assert objects.values["area"] == tuple(one["area"] for one in found)
        assert objects.values["is_crowd"] == tuple(one["iscrowd"] for one in found)


def test_segmentations_are_read_if_they_are_asked_for(images, opened, listed):
    path = write_coco(images / "instances.json")
    assert all(sample.objects.polygons == () for sample in listed(opened(path)).values())
    samples = listed(opened(path, needs_polygons=True))
    for name, picture in PICTURES.items():
        found = [unpack_polygons(polygons)[0].tolist() for polygons in samples[name].objects.polygons]
        assert found == [[[box[0], box[1]], [box[2], box[1]], [box[2], box[3]]] for _, box in picture.objects]
        assert repacked(samples[name]).objects == samples[name].objects


@pytest.mark.parametrize(
    "names",
    [
        ("instances_train2017.json", "instances_val2017.json"),
        ("train/_annotations.coco.json", "valid/_annotations.coco.json"),
    ],
)
def test_several_files_are_splits(images, opened, listed, names):
    paths = [write_coco(images / name) for name in names]
    source = opened(*paths, image_root=(str(images),))
    samples = listed(source)
    assert {key: sample.split for key, sample in samples.items()} == {
        f"{split}/{name}": split for split in ("train", "validation") for name in PICTURES
    }
    assert f"{paths[1].name} is validation" in source.notes[0]
    divided = listed(opened(*paths, image_root=(str(images),), splits=FRACTIONS))
    assert divided.keys() == samples.keys()
    assert {sample.split for sample in divided.values()} == {None}
    assert not any(sample.failure for sample in samples.values())


def test_a_split_that_the_request_says_counts(images, opened, listed):
    paths = [write_coco(images / f"instances_{name}2017.json") for name in ("train", "val")]
    source = opened(f"test={paths[0]}", f"train={paths[1]}", image_root=(str(images),))
    assert {sample.split for sample in listed(source).values()} == {"test", "train"}
    assert source.notes == []
    (several,) = {sample.split for sample in listed(opened(f"test={images}/*train*.json")).values()}
    assert several == "test"


def test_the_first_of_several_folders_that_has_an_image_counts(images, opened, listed):
    path = write_coco(images / "annotations/instances.json")
    (images / "more").mkdir()
    (images / "a.jpg").rename(images / "more/a.jpg")
    samples = listed(opened(path, image_root=(str(images / "more"), str(images))))
    assert [sample.uri for sample in samples.values()] == [str(images / "more/a.jpg")] + [
        str(images / name) for name in ("b.jpg", "c.jpg", "d.jpg")
    ]


def test_an_image_that_is_not_there_is_a_failure_of_its_own(images, opened, listed):
    (images / "b.jpg").unlink()
    samples = listed(opened(write_coco(images / "instances.json")))
    assert {key: sample.failure[0] for key, sample in samples.items() if sample.failure} == {"b.jpg": "unreadable"}


def test_annotations_without_an_image_are_counted_and_noted(images, opened, listed):
    content = coco_of()
    content["annotations"] += [{**content["annotations"][0], "image_id": 999}, {"bbox": [1, 1, 1, 1]}]
    source = opened(write_coco(images / "instances.json", annotations=content["annotations"]))
    assert listed(source)["a.jpg"].objects.boxes == pytest.approx(flat("a.jpg"))
    assert source.notes == ["instances.json: 2 of 8 annotations belong to no image in it, and are left out"]


def test_categories_of_one_name_are_one_class(images, opened, listed):
    categories = [{"id": number, "name": name} for name, number in CATEGORIES.items()]
    source = opened(write_coco(images / "x.json", categories=[{"id": 0, "name": "cat"}, *categories]))
    listed(source)
    assert source.description.class_names == ("cat", "person", "dog")
    assert source.notes == [f"x.json: categories 0, {CATEGORIES['cat']} have the name 'cat': one class"]


def test_an_unknown_category_is_a_label_that_no_class_has(images, opened, listed):
    content = coco_of()
    content["annotations"][0]["category_id"] = 5
    source = opened(write_coco(images / "x.json", annotations=content["annotations"]))
    assert listed(source)["a.jpg"].objects.labels == ("category 5", "person")


@pytest.mark.parametrize("box", [None, [], [1, 2, 3], [1, 2, 3, "4"], [1, 2, 3, True], "x", [10**400, 1, 1, 1]])
def test_what_is_no_box_is_not_a_number(images, opened, listed, box):
    content = coco_of()
    content["annotations"][0].update(bbox=box, area="x", iscrowd=None, segmentation=None)
    objects = listed_objects(opened(write_coco(images / "x.json", annotations=content["annotations"])))["a.jpg"]
    assert any(side != side for side in objects.boxes[:4])
    assert objects.boxes[4:] == pytest.approx(flat("a.jpg")[4:])
    assert objects.values["is_crowd"] == (0, 1)


def listed_objects(source) -> dict[str, Objects]:
    return {sample.key: sample.objects for sample in source.samples()}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": 8}, "has the id of 'b.jpg', 8"),
        ({"file_name": None}, "entry 2 of 'images' has no"),
        ({"file_name": "\ud800.jpg"}, "entry 2 of 'images' has no"),
        ({"id": None}, "entry 2 of 'images' has no"),
    ],
)
def test_an_entry_that_names_no_image_of_its_own_is_a_failure(images, opened, listed, changes, problem):
    content = coco_of()
    content["images"][2].update(changes)
    samples = listed(opened(write_coco(images / "x.json", images=content["images"])))
    failures = [sample.failure for sample in samples.values() if sample.failure]
    assert len(samples) == 4
    assert [reason for reason, _ in failures] == ["invalid_row"]
    assert problem in failures[0][1]


def test_a_path_out_of_the_root_is_rejected(images, opened, listed):
    content = coco_of()
    content["images"][0]["file_name"] = "../secret.jpg"
    samples = listed(opened(write_coco(images / "x.json", images=content["images"])))
    assert samples["../secret.jpg"].failure[0] == "outside_root"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ('{"rows": []}', Refusal("invalid_file", "input", says=["'images'", ".jsonl"])),
        ("[]", Refusal("invalid_file", "input")),
        ('{"images": [{"id": 1, "file_name": "a"}', Refusal("invalid_file", "input", says=["end of the file"])),
        ('{"images": [1]}', Refusal("invalid_file", "input", says=["an element of images is '1'"])),
        (
            '{"images": [], "categories": [{"id": 1}]}',
            Refusal("invalid_file", "input", says=["a category", "'id'", "'name'"]),
        ),
        (
            '{"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], "images": []}',
            Refusal("invalid_file", "input", says=["category 1 is 'a' and 'b'"]),
        ),
        (
            '{"images": [], "annotations": [{"image_id": 1, "caption": "x"}]}',
            Refusal("invalid_file", "input", "layout", says=["'bbox'"]),
        ),
    ],
)
def test_another_file_is_refused(tmp_path, opened, text, refusal):
    (tmp_path / "x.json").write_text(text)
    with refuses(refusal):
        list(opened(tmp_path / "x.json").samples())


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        (
            {"label_column": "x"},
            Refusal("setting_not_applicable", "label_column", "input", says=["label_column=x", "coco"]),
        ),
        (
            {"label_pattern": "x"},
            Refusal("setting_not_applicable", "label_pattern", "input", says=["label_pattern=x", "coco"]),
        ),
        ({"splits": Splits(folders={"a": "train"})}, Refusal("input_has_splits", "splits", "input")),
    ],
)
def test_settings_that_mean_nothing_are_refused(images, opened, fields, refusal):
    with refuses(refusal):
        opened(write_coco(images / "x.json"), **fields)


def test_layouts_of_labels_get_the_classes_of_the_objects(images, opened, listed):
    source = opened(write_coco(images / "x.json"), needs_objects=False)
    assert [sample.label for sample in listed(source).values()] == [["cat", "person"], ["person"], [], ["cat", "dog"]]
    assert all(sample.objects is None for sample in source.samples())


def test_a_file_that_is_replaced_ends_the_build(images, opened):
    source = opened(write_coco(images / "x.json"))
    write_coco(images / "y.json", info={}).replace(images / "x.json")
    with pytest.raises(BuildError, match="has changed while it was read"):
        list(source.samples())


def test_a_second_attempt_says_the_same(images, opened):
    source = opened(write_coco(images / "x.json", categories=[{"id": 1, "name": "a"}, {"id": 2, "name": "a"}]))
    first = list(source.samples()), list(source.notes)
    assert (list(source.samples()), source.notes) == first


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("field", ["image_id", "category_id"])
def test_ids_of_different_types_are_joined_as_text(images, opened, listed, field, turned):
    content = coco_of()
    array, key = ("images" if field == "image_id" else "categories", "id") if turned else ("annotations", field)
    for one in content[array]:
        one[key] = str(one[key])
    source = opened(write_coco(images / "instances.json", **content))
    samples = listed(source)
    assert source.notes == []
    for name, picture in PICTURES.items():
        assert samples[name].objects.boxes == pytest.approx(flat(name))
        assert samples[name].objects.labels == tuple(label for label, _ in picture.objects)


def test_a_file_under_two_ids_is_one_image_with_the_objects_of_both(images, opened, listed):
    content = coco_of()
    content["images"].append({**content["images"][0], "id": 99})
    content["annotations"][0]["image_id"] = 99
    source = opened(write_coco(images / "instances.json", **content))
    samples = listed(source)
    assert list(samples) == list(PICTURES)
    assert samples["a.jpg"].objects.boxes == pytest.approx(flat("a.jpg"))
    assert source.notes == ["instances.json: 1 entries of 'images' name the file of another, and are one image with it"]


def test_a_file_under_two_ids_and_sizes_is_a_failure(images, opened, listed):
    content = coco_of()
    content["images"].append({**content["images"][0], "id": 99, "width": 20})
    samples = listed(opened(write_coco(images / "instances.json", **content)))
    failures = {key: sample.failure for key, sample in samples.items() if sample.failure}
    assert list(failures) == ["a.jpg with id 99"]
    assert "'a.jpg' is listed twice, with (60, 40) and (20, 40) pixels" in failures["a.jpg with id 99"][1]


@pytest.mark.parametrize("count", [pytest.param(100_000, marks=pytest.mark.nightly), 100_001])
def test_an_image_has_so_many_objects_at_most(images, opened, count):
    content = coco_of()
    box = {**content["annotations"][0], "segmentation": []}
    source = opened(write_coco(images / "x.json", annotations=[box] * count))
    first = next(source.samples())
    assert len(first.objects.labels if first.objects else ()) == (count if count == 100_000 else 0)
    assert first.failure == (None if count == 100_000 else ("invalid_row", "more than 100,000 objects in one image"))


def test_captions_beside_boxes_are_named(tmp_path, opened):
    annotations = [
        {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]},
        {"image_id": 1, "caption": "a dog"},
    ]
    (tmp_path / "1.jpg").write_bytes(b"x")
    document = {"images": [{"id": 1, "file_name": "1.jpg"}], "categories": [{"id": 1, "name": "dog"}]}
    (tmp_path / "x.json").write_text(json.dumps({**document, "annotations": annotations}))
    source = opened(tmp_path / "x.json")
    assert [sample.objects.labels for sample in source.samples()] == [("dog",)]
    assert source.unread == {Content.CAPTIONS: 1}
