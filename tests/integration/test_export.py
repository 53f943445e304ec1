"""Other programs read what `export` writes: pycocotools and pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from pycocotools.coco import COCO

from beam_tfrecords import open_dataset
from tests.annotated_inputs import coco_of, save_pictures, write_coco

pytestmark = pytest.mark.nightly


@pytest.fixture
def dataset(tmp_path, build):
    save_pictures(tmp_path / "in")
    content = coco_of()
    for one in content["annotations"]:
        x, y, width, height = one["bbox"]
        one["segmentation"] = [[x, y, x + width, y, x + width, y + height]]
    path = write_coco(tmp_path / "in/a.json", annotations=content["annotations"])
    words = [f"--input={path}", f"--image_root={tmp_path / 'in'}", "--layout=detection_masks", "--image_size=40"]
    return open_dataset(build(tmp_path / "out", *words))


def test_pycocotools_finds_the_boxes_masks_and_classes(dataset, tmp_path):
    dataset.export(tmp_path / "folder")
    coco = COCO(tmp_path / "folder/annotations/instances_train.json")
    names = {one["id"]: one["name"] for one in coco.loadCats(coco.getCatIds())}
    assert tuple(names.values()) == dataset.class_names
    images = {one["file_name"].rpartition("/")[2]: one for one in coco.loadImgs(coco.getImgIds())}
    assert len(images) == dataset.num_records
    found = 0
    for record in dataset["train"]:
        image = images[record["image/filename"]]
        with Image.open(tmp_path / "folder" / image["file_name"]) as opened:
            assert (opened.width, opened.height) == (image["width"], image["height"])
        objects = coco.loadAnns(coco.getAnnIds(image["id"]))
        assert [names[one["category_id"]] for one in objects] == record["image/object/class/text"]
        for number, one in enumerate(objects):
            np.testing.assert_array_equal(coco.annToMask(one), record["image/object/mask"][number])
            x, _, width, _ = np.array(one["bbox"]) / image["width"]
            sides = [record[f"image/object/bbox/{side}"][number] for side in ("xmin", "xmax")]
            np.testing.assert_allclose([x, x + width], sides, rtol=1e-6)
            found += 1
    assert found > 3


def test_pandas_reads_the_table(dataset, tmp_path):
    dataset.export(tmp_path / "folder")
    table = pd.read_parquet(tmp_path / "folder/samples.parquet")
    assert table.columns[0] == "image"
    keys = dataset.records().to_pandas(["key"])["key"]
    assert list(table["key"]) == list(keys)
    assert all((tmp_path / "folder" / path).is_file() for path in table["image"])
