"""Datasets of annotated objects, from the command to a training batch."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco

from beam_tfrecords import open_dataset
from beam_tfrecords.transforms.images.object_masks import encode_mask
from tests import tensorflow as tf
from tests.annotated_inputs import (
    CATEGORIES,
    PICTURES,
    coco_of,
    save_pictures,
    write_coco,
)
from tests.beam_pipelines.dataset_checks import find_all, manifest_of
from tests.beam_pipelines.dataset_records import read_dataset
from tests.beam_pipelines.test_verify_records import rewrite_shard, with_feature
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

KEYS = {
    "image/encoded": "bytes_list",
    "image/format": "bytes_list",
    "image/height": "int64_list",
    "image/width": "int64_list",
    "image/filename": "bytes_list",
    "image/source_id": "bytes_list",
    "image/object/bbox/xmin": "float_list",
    "image/object/bbox/xmax": "float_list",
    "image/object/bbox/ymin": "float_list",
    "image/object/bbox/ymax": "float_list",
    "image/object/class/text": "bytes_list",
    "image/object/class/label": "int64_list",
    "image/object/is_crowd": "int64_list",
    "image/object/area": "float_list",
    "image/object/difficult": "int64_list",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("detection")
    save_pictures(root / "train2017")
    write_coco(root / "instances_train.json")
    return root


@pytest.fixture(scope="module")
def source(root) -> list[str]:
    return [f"--input={root / 'instances_train.json'}", f"--image_root={root / 'train2017'}"]


@pytest.fixture(scope="module")
def out(root, source, build) -> Path:
    """Squeezed to 20 x 30 pixels (height x width)."""
    return build(
        root / "out", *source, "--source=coco", "--layout=detection", "--image_size=20x30", "--resize_mode=exact"
    )


def test_the_records_are_those_of_the_object_detection_api(out):
    records = {record.key: record for record in read_dataset(out, "train")}
    assert sorted(records) == sorted(PICTURES)
    for number, (name, picture) in enumerate(PICTURES.items()):
        record = records[name]
        kinds = {key: kind for key, kind in KEYS.items() if record.values[key]}
        assert kinds.items() <= record.kinds.items()
        assert record.kinds.keys() == KEYS.keys()
        assert record["image/source_id"] == str(7 * number + 1).encode()
        assert (record["image/height"], record["image/width"]) == (20, 30)
        sides = zip(*(box for _, box in picture.objects), strict=True) if picture.objects else [()] * 4
        for side, values, size in zip(
            ("xmin", "ymin", "xmax", "ymax"), sides, (picture.width, picture.height) * 2, strict=True
        ):
            assert record.values[f"image/object/bbox/{side}"] == pytest.approx([value / size for value in values])
        labels = [label for label, _ in picture.objects]
        assert record.values["image/object/class/text"] == [label.encode() for label in labels]
        assert record.values["image/object/class/label"] == [list(CATEGORIES).index(label) + 1 for label in labels]
        assert record.row["objects"] == len(labels)
        assert record.row["label"] is None
    assert records["a.jpg"].values["image/object/is_crowd"] == [0, 1]
    assert records["a.jpg"].values["image/object/area"] == pytest.approx([300 / 4, 667.5 / 4])


def test_the_label_map_names_the_classes_from_1(out):
    assert (out / "label_map.pbtxt").read_text() == (
        'item {\n  id: 1\n  name: "person"\n}\nitem {\n  id: 2\n  name: "dog"\n}\nitem {\n  id: 3\n  name: "cat"\n}\n'
    )
    assert manifest_of(out)["class_names"] == ["person", "dog", "cat"]


def test_objects_are_counted_by_class(out):
    manifest = manifest_of(out)
    assert manifest["objects"] == {"written": 6}
    assert manifest["splits"]["train"]["classes"] == {"cat": 2, "dog": 2, "person": 2}


def test_verify_and_inspect_know_objects(out, verify, run):
    assert find_all(out) == []
    assert verify(out).code == 0
    shown = run("inspect", f"--dataset={out}", "--examples=4")
    assert shown.code == 0
    assert "3 (cat), 1 (person)" in shown.out


@pytest.mark.parametrize("layout", ["detection", "tfds"])
def test_inspect_saves_a_picture_with_the_boxes_drawn(tmp_path, source, build, run, layout):
    out = build(tmp_path / "out", *source, f"--layout={layout}", "--image_encoding=raw", "--image_size=20x30",
                "--resize_mode=exact", "--channels=3")  # fmt: skip
    keys = [record.key for record in read_dataset(out, "train")]
    ran = run("inspect", f"--dataset={out}", f"--image={keys.index('b.jpg')}", f"--save={tmp_path / 'b.PNG'}")
    assert ran.code == 0, ran.err
    assert f"train example {keys.index('b.jpg')} " in ran.out
    assert ran.out.endswith(f"saved {tmp_path / 'b.PNG'}\n")
    # Enlarged 21 times; the box is (10, 10, 20, 45) of 50 x 50 pixels.
    pixels = np.asarray(Image.open(tmp_path / "b.PNG"), int)
    assert pixels.shape == (20 * 21, 30 * 21, 3)
    left, top, right, bottom = 0.2 * 630, 0.2 * 420, 0.4 * 630, 0.9 * 420
    red = pixels[:, :, 0] - pixels[:, :, 2] > 150
    rows, columns = np.flatnonzero(red[:, int(left + right) // 2]), np.flatnonzero(red[int(bottom) - 10])
    assert (columns.min(), columns.max()) == pytest.approx((left, right), abs=2)
    assert rows.max() == pytest.approx(bottom, abs=2)
    assert np.flatnonzero(red[:, int(left) + 4]).min() < top - 8  # the name
    stored = open_dataset(out).records("train")[keys.index("b.jpg")]["image"]
    np.testing.assert_array_equal(pixels[-1, ::21], stored[-1])


def test_inspect_saves_a_picture_without_boxes_as_it_is(out, tmp_path, run):
    keys = [record.key for record in read_dataset(out, "train")]
    ran = run("inspect", f"--dataset={out}", f"--image={keys.index('c.jpg')}", f"--save={tmp_path / 'c.jpg'}")
    assert ran.code == 0, ran.err
    assert Image.open(tmp_path / "c.jpg").size == (30, 20)


@pytest.fixture(scope="module")
def with_masks(root, source, build) -> Path:
    """The same with masks: triangles, and a crowd as run lengths."""
    return build(root / "masks", *masked(root), "--layout=detection_masks", "--image_size=20x30", "--resize_mode=exact")


def masked(root: Path) -> list[str]:
    content = coco_of()
    crowd = np.zeros((40, 60), np.uint8, order="F")
    crowd[10:40, 20:60] = 1
    content["annotations"][1]["segmentation"] = {**coco.encode(crowd), "counts": coco.encode(crowd)["counts"].decode()}
    content["annotations"][2]["segmentation"] = {"size": [50, 50], "counts": [510, 35, 1955]}
    del content["annotations"][3]["segmentation"]
    path = write_coco(root / "instances_masks.json", annotations=content["annotations"])
    return [f"--input={path}", f"--image_root={root / 'train2017'}"]


def test_masks_of_objects_follow_their_images(out, with_masks):
    plain, masked = ({one.key: one for one in read_dataset(folder, "train")} for folder in (out, with_masks))
    masks = {name: [_pixels(one) for one in record.values["image/object/mask"]] for name, record in masked.items()}
    for name, record in masked.items():
        assert record.kinds.get("image/object/mask", "bytes_list") == "bytes_list"
        del record.values["image/object/mask"]
        assert record.values == plain[name].values
    # The upper right half of 10 x 15 pixels (height x width), and what was 10 rows below and 20 columns right.
    triangle, crowd = masks["a.jpg"]
    rows, columns = np.mgrid[:20, :30]
    np.testing.assert_array_equal(triangle, (columns + 0.5 >= (rows + 0.5) * 1.5) & (columns < 15) & (rows < 10))
    np.testing.assert_array_equal(crowd, (rows >= 5) & (columns >= 10))
    # A column of 50, from row 10 to 45.
    (column,) = masks["b.jpg"]
    np.testing.assert_array_equal(np.argwhere(column), [[row, 6] for row in range(4, 18)])
    assert masks["c.jpg"] == []
    assert [mask.any() for mask in masks["d.jpg"]] == [False, True, True]


def _pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_the_decoder_of_the_object_detection_api_finds_its_keys(with_masks):
    """`TfExampleDecoder(load_instance_masks=True)` parses these keys as these types, and masks as PNG_MASKS."""
    text, whole, share = (tf.io.VarLenFeature(kind) for kind in (tf.string, tf.int64, tf.float32))
    keys = {
        **{f"image/{name}": tf.io.FixedLenFeature([], tf.string) for name in ("encoded", "format", "filename")},
        "image/source_id": tf.io.FixedLenFeature([], tf.string),
        **{f"image/{side}": tf.io.FixedLenFeature([], tf.int64) for side in ("height", "width")},
        **{f"image/object/bbox/{side}": share for side in ("xmin", "xmax", "ymin", "ymax")},
        "image/object/class/label": whole,
        "image/object/class/text": text,
        "image/object/area": share,
        "image/object/is_crowd": whole,
        "image/object/difficult": whole,
        "image/object/mask": text,
    }
    for record in tf.data.TFRecordDataset([str(path) for path in with_masks.glob("*.tfrecord-*")]):
        found = tf.io.parse_single_example(record, keys)
        picture = PICTURES[found["image/filename"].numpy().decode()]
        for name, values in found.items():
            assert not name.startswith("image/object/") or values.dense_shape[0] == len(picture.objects), name
        image = tf.io.decode_image(found["image/encoded"], channels=3)
        assert image.shape == (found["image/height"], found["image/width"], 3)
        for data in found["image/object/mask"].values:
            mask = tf.squeeze(tf.io.decode_image(data, channels=1), axis=2)
            assert mask.shape == image.shape[:2]
            assert set(np.unique(mask)) <= {0, 1}


def test_a_missing_segmentation_is_noted_and_masks_are_verified(with_masks, verify, tmp_path):
    assert manifest_of(with_masks)["notes"] == [
        "instances_masks.json: 1 of 6 objects have no polygon, and their masks are empty"
    ]
    assert find_all(with_masks) == []
    assert verify(with_masks).code == 0


def test_a_mask_that_does_not_fit_its_image_is_found(with_masks, tmp_path):
    copy = Path(shutil.copytree(with_masks, tmp_path / "copy"))
    keys = [record.key for record in read_dataset(with_masks, "train")]
    small = encode_mask(np.ones((20, 29), np.uint8))

    def change(record, row, example):
        masks = {"a.jpg": [small, b"none"]}.get(keys[record])
        return with_feature(example, "image/object/mask", bytes_list=masks) if masks else None

    rewrite_shard(copy, 0, change)
    found = [finding.problem for finding in find_all(copy)]
    assert found[0] == "the mask has height 20 and width 29; its image 20 and 30"
    assert found[1].startswith("the mask does not decode")


def test_masks_are_drawn(out, with_masks, tmp_path, run):
    number = [record.key for record in read_dataset(out, "train")].index("a.jpg")
    plain, masked = (tmp_path / f"{name}.png" for name in ("plain", "masked"))
    for folder, path in ((out, plain), (with_masks, masked)):
        assert run("inspect", f"--dataset={folder}", f"--image={number}", f"--save={path}").code == 0
    changed = (np.asarray(Image.open(plain)) != np.asarray(Image.open(masked))).any(axis=2)
    # In the middle of each enlarged pixel: not where boxes and names are.
    rows, columns = np.mgrid[:20, :30]
    crowd = (rows >= 5) & (columns >= 10)
    triangle = (columns + 0.5 >= (rows + 0.5) * 1.5) & (columns < 15) & (rows < 10)
    inner = (rows > 1) & ((rows < 3) | (rows > 12)) & (rows < 19) & (columns > 16) & (columns < 29)
    np.testing.assert_array_equal(changed[10::21, 10::21][inner], (crowd | triangle)[inner])


@pytest.mark.nightly
def test_masks_are_loaded_as_pixels(with_masks):
    records = list(open_dataset(with_masks).records("train"))
    names = [record["image/filename"] for record in records]
    shapes = {name: record["image/object/mask"].shape for name, record in zip(names, records, strict=True)}
    assert shapes == {name: (len(picture.objects), 20, 30) for name, picture in PICTURES.items()}
    (batch,) = load(with_masks, "train", batch_size=4)
    (padded,) = load(with_masks, "train", batch_size=4, num_objects=2)
    assert padded["image/object/mask"].shape == (4, 2, 20, 30)
    for number, record in enumerate(records):
        masks = record["image/object/mask"]
        np.testing.assert_array_equal(batch["image/object/mask"][number].numpy().reshape(masks.shape), masks)
        expected = np.zeros((2, 20, 30), np.uint8)
        expected[: len(masks)] = masks[:2]
        np.testing.assert_array_equal(padded["image/object/mask"][number], expected)
    (large,) = load(with_masks, "train", batch_size=4, image_size=(40, 60), resize_mode="crop", num_objects=2)
    np.testing.assert_array_equal(large["image/object/mask"][..., ::2, ::2], padded["image/object/mask"])
    (example,) = load(with_masks, "train", decode=False).take(1)
    assert example["image/object/mask"].dtype.name == "string"


def test_a_changed_polygon_makes_the_example_anew_without_decoding(tmp_path, convert):
    save_pictures(tmp_path / "in")
    path = write_coco(tmp_path / "in/x.json")
    flags = [f"--input={path}", "--image_size=20", "--layout=detection_masks"]
    assert convert(*flags, f"--output={tmp_path / 'out'}", "--versioned").code == 0
    content = coco_of()
    content["annotations"][2]["segmentation"] = [[10, 10, 20, 10, 10, 45]]
    write_coco(path, annotations=content["annotations"])
    assert convert(*flags, f"--output={tmp_path / 'out'}", "--versioned").code == 0
    assert convert(*flags, f"--output={tmp_path / 'fresh'}").code == 0
    latest = open_dataset(tmp_path / "out")
    assert latest.manifest["reuse"] == {"copied": 3, "reserialized": 1, "converted": 0}
    (new,), (old,) = ([*Path(one).glob("*.tfrecord-*")] for one in (latest.path, tmp_path / "fresh"))
    assert new.read_bytes() == old.read_bytes()


def with_keypoints(root: Path) -> list[str]:
    """Three keypoints of every person, of which the last is not labelled; other classes have none."""
    content = coco_of()
    for one in content["annotations"]:
        if one["category_id"] == CATEGORIES["person"]:
            x, y, width, height = map(int, one["bbox"])
            one["keypoints"] = [x, y, 2, x + width - 1, y + height - 1, 1, 0, 0, 0]
            one["num_keypoints"] = 2
    path = write_coco(root / "person_keypoints_train2017.json", annotations=content["annotations"])
    return [f"--input={path}", f"--image_root={root / 'train2017'}"]


def test_keypoints_are_columns_as_the_object_detection_api_names_them(root, tmp_path, build):
    flags = ["--layout=detection_keypoints", "--image_size=20x30", "--resize_mode=exact"]
    out = build(tmp_path / "out", *with_keypoints(root), *flags)
    records = {record.key: record for record in read_dataset(out, "train")}
    # Pixels of 60 x 40, from their middles; a cat has no keypoints.
    keypoints = {name: records["a.jpg"].values[f"image/object/keypoint/{name}"] for name in ("x", "y", "visibility")}
    assert keypoints["x"] == pytest.approx([0, 0, 0, 15.5 / 60, 58.5 / 60, 0])
    assert keypoints["y"] == pytest.approx([0, 0, 0, 10.5 / 40, 39.5 / 40, 0])
    assert keypoints["visibility"] == [0, 0, 0, 2, 1, 0]
    assert records["a.jpg"].kinds["image/object/keypoint/visibility"] == "int64_list"
    assert len(records["d.jpg"].values["image/object/keypoint/x"]) == 3 * 3
    assert records["c.jpg"].values["image/object/keypoint/x"] == []
    assert find_all(out) == []
    for padding in (None, 2):
        (batch,) = load(out, "train", batch_size=4, num_objects=padding)
        counts = sorted(batch["image/object/keypoint/x"].row_lengths().numpy())
        assert counts == sorted(3 * len(picture.objects) for picture in PICTURES.values())
    assert batch["image/object/area"].shape == (4, 2)


def test_batches_have_ragged_boxes(out):
    (batch,) = load(out, "train", batch_size=4)
    counts = {len(picture.objects) for picture in PICTURES.values()}
    assert set(batch["image/object/bbox/xmin"].row_lengths().numpy()) == counts
    assert batch["image"].shape == (4, 20, 30, 3)


def test_batches_can_have_a_fixed_number_of_objects(out):
    (batch,) = load(out, "train", batch_size=4, num_objects=2)
    (ragged,) = load(out, "train", batch_size=4)
    for name, filler in (("image/object/class/label", -1), ("image/object/class/text", b""), ("image/object/area", -1)):
        padded = ragged[name].to_tensor(default_value=filler)[:, :2]
        np.testing.assert_array_equal(batch[name], padded)
        assert batch[name].shape == (4, 2)


def test_num_objects_needs_objects(out, tmp_path, photos, build):
    with pytest.raises(ValueError, match="num_objects=0: expected 1 or more, and a dataset with annotated objects"):
        load(out, "train", num_objects=0)
    build(tmp_path, f"--input={photos}", "--image_size=16", "--limit=4")
    with pytest.raises(ValueError, match="a dataset with annotated objects"):
        load(tmp_path, "train", num_objects=3)


def test_the_layout_of_tfds_has_boxes_in_one_feature(tmp_path, source, build):
    out = build(tmp_path, *source, "--layout=tfds", "--image_size=20x30", "--resize_mode=exact")
    assert (out / "objects-label.labels.txt").read_text() == "person\ndog\ncat\n"
    assert not (out / "label_map.pbtxt").exists()
    assert find_all(out) == []
    records = {record["filename"]: record for record in open_dataset(out).records("train")}
    for name, picture in PICTURES.items():
        size = [picture.height, picture.width] * 2
        boxes = [(ymin, xmin, ymax, xmax) for _, (xmin, ymin, xmax, ymax) in picture.objects]
        assert records[name]["objects/bbox"].shape == (len(boxes), 4)
        np.testing.assert_allclose(records[name]["objects/bbox"], np.reshape(boxes, (-1, 4)) / size, rtol=1e-6)
        assert records[name]["objects/label"].tolist() == [list(CATEGORIES).index(one) for one, _ in picture.objects]
    (batch,) = load(out, "train", batch_size=4)
    assert batch["objects/bbox"].shape == (4, None, 4)
    (batch,) = load(out, "train", batch_size=4, num_objects=5)
    assert batch["objects/bbox"].shape == (4, 5, 4)
    assert batch["objects/label"].shape == (4, 5)


def test_a_dry_run_counts_objects(tmp_path, source, convert):
    ran = convert(f"--output={tmp_path / 'out'}", *source, "--dry_run")
    assert ran.code == 0
    assert "classes: person 2, dog 2, cat 2" in ran.out
    assert "2 dog, 1 cat" in ran.out
    assert "(no object)" in ran.out


def test_what_a_dropped_duplicate_had_is_not_counted(tmp_path, root, convert):
    save_pictures(tmp_path / "in")
    pictures = {**PICTURES, "again/d.jpg": PICTURES["d.jpg"]}
    (tmp_path / "in/again").mkdir()
    (tmp_path / "in/again/d.jpg").write_bytes((tmp_path / "in/d.jpg").read_bytes())
    path = write_coco(tmp_path / "in/x.json", pictures)
    ran = convert(f"--output={tmp_path / 'out'}", f"--input={path}", "--image_size=20", "--duplicates=drop")
    assert ran.code == 0, ran.err
    manifest = manifest_of(tmp_path / "out")
    assert manifest["objects"] == {"written": 6}
    assert manifest["splits"]["train"]["classes"] == {"cat": 2, "dog": 2, "person": 2}


def test_a_changed_box_makes_the_example_anew_without_decoding(tmp_path, root, convert, monkeypatch):
    save_pictures(tmp_path / "in")
    path = write_coco(tmp_path / "in/x.json")
    flags = [f"--input={path}", "--image_size=20", "--resize_mode=crop", f"--output={tmp_path / 'out'}", "--versioned"]
    assert convert(*flags).code == 0
    content = coco_of()
    content["annotations"][2]["bbox"] = [12, 10, 20, 20]
    write_coco(path, annotations=content["annotations"])
    ran = convert(*flags)
    assert ran.code == 0, ran.err
    latest = open_dataset(tmp_path / "out")
    fresh = tmp_path / "fresh"
    assert convert(*flags[:3], f"--output={fresh}").code == 0
    assert latest.manifest["reuse"] == {"copied": 3, "reserialized": 1, "converted": 0}
    assert latest.manifest["objects"] == manifest_of(fresh)["objects"]
    (new,), (old,) = ([*Path(one).glob("*.tfrecord-*")] for one in (latest.path, fresh))
    assert new.read_bytes() == old.read_bytes()
