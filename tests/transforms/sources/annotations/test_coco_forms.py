"""Files of COCO's form as other programs write them: under any name, and with less than COCO's own have."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as masks
from pycocotools.coco import COCO

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from tests.annotated_inputs import PICTURES, coco_of, save_pictures
from tests.beam_pipelines.listed_records import commands_of, read
from tests.each import each
from tests.refusals import refuses

OBJECTS = {"train": {"": len(PICTURES)}}


def suggested(folder: Path, tmp_path: Path) -> list[Any]:
    """What each command gives that the refusal of a folder suggests for annotations."""
    argv = [f"--input={folder}", "--output=out"]
    with pytest.raises(RequestError) as refused:
        read(argv, tmp_path / "listing")
    commands = commands_of(explain(refused.value, "convert", argv))
    found = [command for command in commands if any("json" in word for word in command)]
    return [read(command, tmp_path / f"listing{number}")[0] for number, command in enumerate(found)]


@each("name", ["result.json", "labels.json", "train.json", "_annotations.coco.json", "x/export.json"])
@each("images", ["", "images", "data/photos"])
def test_a_file_is_known_by_what_it_holds(tmp_path, name, images):
    folder = tmp_path / "in"
    save_pictures(folder / images)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(coco_of(), indent=2))
    assert suggested(folder, tmp_path) == [OBJECTS]


@pytest.mark.parametrize(
    "content",
    [
        {"splits": ["train", "test"]},
        {"features": {"images": [{"dtype": "string"}], "annotations": [{"bbox": []}]}, "splits": {}},
        {"images": ["a.jpg", "b.jpg"], "annotations": ["cat", "dog"]},
        {"version": "5.0", "shapes": [{"label": "cat", "points": [[1, 2]]}], "imagePath": "a.jpg"},
        [{"images": [{}]}],
    ],
)
def test_another_file_is_not_taken_for_one(tmp_path, content):
    save_pictures(tmp_path / "in")
    (tmp_path / "in/dataset_dict.json").write_text(json.dumps(content))
    assert suggested(tmp_path / "in", tmp_path) == []


def test_images_in_many_folders_are_found(tmp_path):
    names = sorted(PICTURES)
    save_pictures(tmp_path / "all")
    content = coco_of()
    for number in range(8):
        folder = tmp_path / f"in/camera_{number}"
        folder.mkdir(parents=True)
        shutil.copy(tmp_path / "all" / names[number % 4], folder / f"{number}.jpg")
    images = [{**content["images"][number % 4], "id": number, "file_name": f"{number}.jpg"} for number in range(8)]
    boxes = [{**content["annotations"][0], "id": number, "image_id": number} for number in range(8)]
    (tmp_path / "in/labels.json").write_text(json.dumps({**content, "images": images, "annotations": boxes}))
    assert suggested(tmp_path / "in", tmp_path) == [{"train": {"": 8}}]


@pytest.mark.parametrize("root", ["in", "in/train2017"])
def test_lvis_names_its_images_by_urls(tmp_path, opened, listed, root):
    save_pictures(tmp_path / "in/train2017")
    content = coco_of()
    for image in content["images"]:
        image["coco_url"] = f"http://images.cocodataset.org/train2017/{image.pop('file_name')}"
    (tmp_path / "lvis_v1_train.json").write_text(json.dumps({"annotations": content.pop("annotations"), **content}))
    samples = listed(opened(tmp_path / "lvis_v1_train.json", image_root=(str(tmp_path / root),)))
    head = "train2017/" if root == "in" else ""
    assert list(samples) == [f"{head}{name}" for name in PICTURES]
    assert not any(sample.failure for sample in samples.values())


def test_one_category_for_each_image_is_its_label(tmp_path, opened, listed):
    """As in the files of iNaturalist."""
    save_pictures(tmp_path / "in/train_val2018")
    names = ["Aves", "Fungi"]
    content = {
        "info": {"year": 2018},
        "images": [{"id": n, "file_name": f"train_val2018/{name}"} for n, name in enumerate(PICTURES)],
        "categories": [{"id": n, "name": name} for n, name in enumerate(names)],
        "annotations": [{"id": n, "image_id": n, "category_id": n % 2} for n in range(3)],
    }
    path = tmp_path / "in/train2018.json"
    path.write_text(json.dumps(content))
    source = opened(path, needs_objects=False)
    samples = listed(source)
    assert [sample.label for sample in samples.values()] == ["Aves", "Fungi", "Aves", None]
    assert source.description.class_names == ("Aves", "Fungi")
    content["annotations"].append({"id": 3, "image_id": 3, "category_id": 1})
    path.write_text(json.dumps(content))
    assert read([f"--input={path}", "--output=out"], tmp_path / "listing")[0] == {"train": {"Aves": 2, "Fungi": 2}}
    assert suggested(tmp_path / "in", tmp_path) == [{"train": {"Aves": 2, "Fungi": 2}}]


@pytest.mark.parametrize("seed", range(3))
def test_boxes_masks_and_classes_are_those_of_pycocotools(tmp_path, opened, seed):
    """Outlines are polygons or run lengths; without `bbox`, the box is around them."""
    rng = random.Random(seed)
    save_pictures(tmp_path)
    content = coco_of()
    annotations = []
    for number in range(60):
        image = rng.choice(content["images"])
        height, width = image["height"], image["width"]
        one = {**rng.choice(content["annotations"]), "id": number, "image_id": image["id"]}
        pixels = np.zeros((height, width), np.uint8, order="F")
        top, left = rng.randrange(height - 4), rng.randrange(width - 4)
        pixels[top : rng.randrange(top + 1, height), left : rng.randrange(left + 1, width)] = 1
        pixels &= np.random.default_rng(seed * 100 + number).integers(0, 2, pixels.shape, np.uint8)
        packed = masks.encode(np.asfortranarray(pixels))
        points = [rng.uniform(0, side) for _ in range(rng.randrange(3, 9)) for side in (width, height)]
        one["segmentation"] = rng.choice([[points], {"size": packed["size"], "counts": packed["counts"].decode()}])
        if rng.random() < 0.5:
            del one["bbox"]
        annotations.append(one)
    path = tmp_path / "instances.json"
    path.write_text(json.dumps({**content, "annotations": annotations}))
    oracle, samples = COCO(path), {sample.key: sample for sample in opened(path).samples()}
    names = {category["id"]: category["name"] for category in oracle.loadCats(oracle.getCatIds())}
    assert len(samples) == len(oracle.getImgIds())
    for image in oracle.loadImgs(oracle.getImgIds()):
        objects = samples[image["file_name"]].objects
        found = oracle.loadAnns(oracle.getAnnIds(imgIds=image["id"]))
        assert objects.labels == tuple(names[one["category_id"]] for one in found)
        for number, one in enumerate(found):
            polygons = one["segmentation"]
            if "bbox" in one:
                x, y, width, height = one["bbox"]
            elif isinstance(polygons, dict):
                x, y, width, height = masks.toBbox(polygons)
                if not masks.area(polygons):
                    assert np.isnan(objects.boxes[4 * number : 4 * number + 4]).all()
                    continue
            else:
                corners = np.reshape(polygons[0], (-1, 2))
                (x, y), (width, height) = corners.min(axis=0), np.ptp(corners, axis=0)
            assert objects.boxes[4 * number : 4 * number + 4] == pytest.approx((x, y, x + width, y + height), rel=1e-5)


@pytest.mark.parametrize(
    ("written", "there"),
    [
        ("{}", "images/{}"),
        ("/kaggle/input/cats/images/{}", "images/{}"),
        ("C:\\data\\{}", "{}"),
        ("images/{}", "{}"),
        ("{}", "train/{}"),
    ],
)
def test_images_at_similar_paths_are_found_and_the_command_is_right(tmp_path, written, there):
    folder = tmp_path / "in it"
    (folder / there.format("x")).parent.mkdir(parents=True, exist_ok=True)
    save_pictures((folder / there.format("x")).parent)
    content = coco_of()
    for image in content["images"]:
        image["file_name"] = written.format(image["file_name"])
    (folder / "x.json").write_text(json.dumps(content))
    argv = [f"--input={folder / 'x.json'}", "--output=out", "--allow_outside_root"]
    with refuses("missing_images", "input", says=["first 4 images"]) as refused:
        read(argv, tmp_path / "listing")
    if written == "{}":
        (command,) = commands_of(explain(refused.value, "convert", argv))
        assert read(command, tmp_path / "other")[0] == OBJECTS
    else:
        assert "; write the paths in the file like this" in refused.value.message
