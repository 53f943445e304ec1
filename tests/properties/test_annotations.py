"""Annotated objects beside pycocotools and the definitions of their formats, and the limits of one image."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as masks
from pycocotools.coco import COCO

from beam_tfrecords import RequestError, build
from tests.pictures import picture
from tests.published import Published, Record, read_published
from tests.writers import save

WIDTH, HEIGHT = 30, 20
NAMES = ["person", "dog", "cat"]


def read(output: Path, **settings: Any) -> Published:
    settings = {"max_failures": 1, "image_encoding": "png", "trust_annotations": True, **settings}
    return read_published(build(output=str(output), quiet=True, **settings).path)


def boxes_of(record: Record) -> np.ndarray:
    """The boxes of a record in pixels, [N, 4]: xmin, ymin, xmax, ymax."""
    sides = [record.values[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
    return np.array(sides).T * (WIDTH, HEIGHT, WIDTH, HEIGHT)


def labels_of(record: Record) -> list[str]:
    return [text.decode() for text in record.values["image/object/class/text"]]


def random_annotation(rng: random.Random, noise: np.random.Generator) -> dict[str, Any]:
    """An object whose outline is a polygon or run lengths; without `bbox`, the box is around it."""
    pixels = np.zeros((HEIGHT, WIDTH), np.uint8, order="F")
    top, left = rng.randrange(HEIGHT - 4), rng.randrange(WIDTH - 4)
    pixels[top : rng.randrange(top + 1, HEIGHT), left : rng.randrange(left + 1, WIDTH)] = 1
    pixels &= noise.integers(0, 2, pixels.shape, np.uint8)
    pixels[top, left] = 1
    packed = masks.encode(np.asfortranarray(pixels))
    points = [rng.uniform(0, side) for _ in range(rng.randrange(3, 9)) for side in (WIDTH, HEIGHT)]
    outline = rng.choice([[points], {"size": packed["size"], "counts": packed["counts"].decode()}])
    one = {"segmentation": outline, "area": round(rng.uniform(1, 50), 2), "iscrowd": rng.randrange(2)}
    if rng.random() < 0.5:
        x, y = rng.randrange(WIDTH - 5), rng.randrange(HEIGHT - 5)
        one["bbox"] = [x, y, rng.randrange(1, WIDTH - x), rng.randrange(1, HEIGHT - y)]
    return one


@pytest.mark.parametrize("seed", range(3))
def test_objects_of_coco_are_those_of_pycocotools(tmp_path, seed):
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    images = [{"id": 7 * n + 1, "file_name": f"{n}.png", "width": WIDTH, "height": HEIGHT} for n in range(4)]
    categories = [{"id": number, "name": name} for number, name in zip((18, 1, 90_000_000_000), NAMES, strict=True)]
    annotations = [
        {"id": n, "image_id": rng.choice(images)["id"], "category_id": rng.choice(categories)["id"]}
        | random_annotation(rng, noise)
        for n in range(40)
    ]
    content = {"images": images, "annotations": annotations, "categories": categories}
    for array in content.values():
        rng.shuffle(array)
    save(tmp_path / "in/x.json", json.dumps({name: content[name] for name in rng.sample(sorted(content), 3)}))
    for image in images:
        save(tmp_path / "in" / image["file_name"], picture(f"red {WIDTH}x{HEIGHT}"))
    published = read(tmp_path / "out", input=f"{tmp_path}/in/x.json", layout="detection_masks", invalid_boxes="drop")
    oracle = COCO(f"{tmp_path}/in/x.json")
    names = {category["id"]: category["name"] for category in oracle.loadCats(oracle.getCatIds())}
    records = {record.key: record for record in published.records}
    assert len(records) == len(oracle.getImgIds())
    for image in oracle.loadImgs(oracle.getImgIds()):
        record = records[image["file_name"]]
        assert record.values["image/source_id"] == [str(image["id"]).encode()]
        found = oracle.loadAnns(oracle.getAnnIds(imgIds=image["id"]))
        assert labels_of(record) == [names[one["category_id"]] for one in found]
        assert record.values["image/object/is_crowd"] == [one["iscrowd"] for one in found]
        boxes, pngs = boxes_of(record), record.values["image/object/mask"]
        for one, box, png in zip(found, boxes, pngs, strict=True):
            outline = one["segmentation"]
            if "bbox" in one:
                x, y, width, height = one["bbox"]
            elif isinstance(outline, dict):
                x, y, width, height = masks.toBbox(outline)
            else:
                corners = np.reshape(outline[0], (-1, 2))
                (x, y), (width, height) = corners.min(axis=0), np.ptp(corners, axis=0)
            assert box == pytest.approx((x, y, x + width, y + height), rel=1e-5, abs=1e-5)
            if isinstance(outline, dict):
                np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png))), masks.decode(outline))


@pytest.mark.parametrize("seed", range(3))
def test_objects_of_yolo_are_those_of_the_definition(tmp_path, seed):
    """A row is a class, then the center and the size as shares; or a class and the corners of a polygon."""
    rng = random.Random(seed)
    expected = {}
    for number in range(6):
        rows, boxes, labels = [], [], []
        for _ in range(rng.randrange(1, 5)):
            corners = [round(rng.uniform(0.3, 0.7), 6) for _ in range(2 * rng.choice([2, 3, 4, 5, 8, 11]))]
            labels.append(rng.choice(NAMES))
            if len(corners) == 4:
                x, y, width, height = corners
                boxes.append([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
            else:
                boxes.append([min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2])])
            rows.append(" ".join(map(str, [NAMES.index(labels[-1]), *corners])))
        save(tmp_path / f"in/images/{number}.png", picture(f"red {WIDTH}x{HEIGHT}"))
        save(tmp_path / f"in/labels/{number}.txt", rng.choice(["\n", "\r\n"]).join(rows))
        expected[f"images/{number}.png"] = labels, np.clip(boxes, 0, 1) * (WIDTH, HEIGHT, WIDTH, HEIGHT)
    save(tmp_path / "in/data.yaml", json.dumps({"train": "images", "names": NAMES}))
    for record in read(tmp_path / "out", input=f"{tmp_path}/in/data.yaml").records:
        labels, boxes = expected.pop(record.key)
        assert labels_of(record) == labels
        np.testing.assert_allclose(boxes_of(record), boxes, atol=1e-4)
    assert not expected


@pytest.mark.parametrize("seed", range(3))
def test_xml_files_belong_to_their_images_in_any_tree(tmp_path, seed):
    rng = random.Random(seed)
    expected = {}
    for number in range(12):
        folder, objects, boxes = rng.choice(["a", "b/c", "train", "d/images"]), "", []
        for _ in range(rng.randrange(1, 4)):
            left, top = rng.randrange(WIDTH - 2), rng.randrange(HEIGHT - 2)
            box = left, top, rng.randrange(left + 1, WIDTH), rng.randrange(top + 1, HEIGHT)
            sides = zip(("xmin", "ymin", "xmax", "ymax"), (left + 1, top + 1, *box[2:]), strict=True)
            inner = "".join(f"<{side}>{value}</{side}>" for side, value in sides)
            objects += f"<object><name>{rng.choice(NAMES)}</name><bndbox>{inner}</bndbox></object>"
            boxes.append(box)
        save(tmp_path / f"in/{folder}/{number}.png", picture(f"red {WIDTH}x{HEIGHT}"))
        place = rng.choice([folder, "xml", f"xml/{folder}"])
        save(tmp_path / f"in/{place}/{number}.xml", f"<annotation>{objects}</annotation>")
        expected[f"{folder}/{number}.png"] = boxes
    published = read(tmp_path / "out", input=f"{tmp_path}/in", source="voc", splits="train=0.5,test=0.5")
    assert {record.key for record in published.records} == expected.keys()
    for record in published.records:
        np.testing.assert_allclose(boxes_of(record), expected[record.key], atol=1e-4)


def test_an_image_has_100_000_objects_at_most(tmp_path):
    save(tmp_path / "in/1.png", picture("red 20x20"))
    save(tmp_path / "in/2.png", picture("red 20x20"))
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2]}
    content = {"images": [{"id": n, "file_name": f"{n}.png"} for n in (1, 2)], "categories": [{"id": 1, "name": "a"}]}
    boxes = [*[box] * 100_001, {**box, "image_id": 2}]
    save(tmp_path / "in/x.json", json.dumps({**content, "annotations": boxes}))
    of_coco = read(tmp_path / "coco", input=f"{tmp_path}/in/x.json")
    assert of_coco.failures == {"1.png": "invalid_row: more than 100,000 objects in one image"}
    save(tmp_path / "in/1.txt", "0 .5 .5 .1 .1\n" * 100_001)
    of_yolo = read(tmp_path / "yolo", input=f"{tmp_path}/in", source="yolo")
    assert of_yolo.failures == {"1.png": "invalid_row: 1.txt, more than 100,000 objects in one image"}


def test_texts_that_grow_when_they_are_read_take_no_memory(tmp_path):
    for name in "abc":
        save(tmp_path / f"in/images/{name}.png", picture("red 8x8"))
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    texts = {
        f"{bomb}train: *a11\nnames: [a]": "invalid_file",
        f"{bomb}train: images\nnames: *a11": "invalid_class_name",
        f"{bomb}train: [*a11]": "missing_class_names",
    }
    for text, code in texts.items():
        save(tmp_path / "in/data.yaml", text)
        with pytest.raises(RequestError) as refused:
            build(f"{tmp_path}/in/data.yaml", f"{tmp_path}/out", quiet=True)
        assert refused.value.code == code
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    head = f'<!DOCTYPE a [<!ENTITY a0 "x">{entities}]>'
    save(tmp_path / "in/images/a.xml", f"{head}<annotation><object><name>&a9;</name></object></annotation>")
    save(tmp_path / "in/images/b.xml", "<a>" * 100_000 + "</a>" * 100_000)
    save(tmp_path / "in/images/c.xml", "<annotation/>")
    published = read(tmp_path / "out", input=f"{tmp_path}/in/images", source="voc")
    why = "a.xml: the XML has a document type or entities, which are not read"
    deep = "invalid_row: b.xml: nested too deeply"
    assert published.failures == {"a.png": f"invalid_row: {why}", "b.png": deep}
