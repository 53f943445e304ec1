"""What readers, TensorFlow, `verify` and `inspect` make of masks, objects, captions, several images and vectors."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords import Dataset, Sample, build, open_dataset
from tests import tensorflow as tf
from tests.every_input import BOXES, LAYOUTS, SIZES, settings_of, write_tree
from tests.framing import Example, framed, records_of
from tests.pictures import picture
from tests.tensorflow import load
from tests.writers import save

pytestmark = pytest.mark.tensorflow

SIDES = ("xmin", "xmax", "ymin", "ymax")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Callable[[str], Dataset]:
    """Builds a layout when it is first asked for."""
    root = tmp_path_factory.mktemp("layouts")
    write_tree(root)

    def build_layout(name: str) -> Dataset:
        if not (root / name).exists():
            build(output=str(root / name), quiet=True, **settings_of(name, root))
        return open_dataset(root / name)

    return build_layout


def plain(value: Any) -> Any:
    """A value of a reader as lists, numbers and bytes."""
    if hasattr(value, "to_list"):
        value = value.to_list()
    elif hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("name", LAYOUTS)
def test_tensorflow_reads_what_records_hold_alone_and_in_batches(built, name):
    dataset = built(name)
    assert dataset.verify() == []
    records = dataset.records("train")
    together = records.__getitems__(range(len(records)))
    (batch,) = load(dataset, "train", batch_size=len(records))
    for number, (example, record) in enumerate(zip(load(dataset, "train"), records, strict=True)):
        assert {*example} == {*record} == {*batch}
        for feature, value in record.items():
            for other in (example[feature], batch[feature][number], together[number][feature]):
                assert plain(other) == plain(value), feature
            assert not isinstance(value, np.ndarray) or value.flags.writeable


@pytest.mark.parametrize("name", ["detection_masks", "detection_keypoints", "tfds"])
def test_batches_can_have_a_fixed_number_of_objects(built, name):
    dataset = built(name)
    (padded,) = load(dataset, "train", batch_size=3, num_objects=2)
    for number, record in enumerate(dataset.records("train")):
        for feature in padded.keys() & {"objects/label", *(f"image/object/{one}" for one in ("area", "mask"))}:
            values, found = plain(record[feature]), plain(padded[feature][number])
            assert found[: len(values)] == values[:2], feature
            filler = -1 if "mask" not in feature else np.zeros((20, 30), int).tolist()
            assert found[len(values) :] == [filler] * max(2 - len(values), 0), feature
        texts = plain(record.get("image/object/class/text", []))
        assert not texts or plain(padded["image/object/class/text"][number]) == [*texts, b"", b""][:2]


def test_a_number_of_objects_needs_objects(built):
    for name, count in (("tfds", 0), ("captions", 3)):
        with pytest.raises(ValueError, match="expected 1 or more, and a dataset with annotated objects"):
            load(built(name), "train", num_objects=count)


def test_a_list_of_images_of_different_sizes_needs_a_size_to_be_loaded(built, tmp_path):
    source = Path(built("several").path).parent
    settings = {"input": f"{source}/t.jsonl", "image_column": "image,views", "layout": "image"}
    dataset = build(output=str(tmp_path), quiet=True, **settings)
    with pytest.raises(ValueError, match=r"the images of a list \(views\) have different sizes; pass image_size="):
        load(dataset, "train")
    loaded = load(dataset, "train", image_size=8, resize_mode="crop")
    assert sorted(len(example["views"]) for example in loaded) == [0, 1, 2]


def test_pairs_are_images_and_masks(built):
    ((images, masks),) = load(built("segmentation"), "train", batch_size=3, as_supervised=True)
    assert (images.shape, masks.shape, masks.dtype) == ((3, 20, 30, 3), (3, 20, 30, 1), "uint8")


@pytest.mark.parametrize("name", ["detection_masks", "detection_polygons"])
def test_the_decoder_of_the_object_detection_api_finds_its_keys(built, name):
    """`TfExampleDecoder(load_instance_masks=True)` parses these keys as these types, and masks as PNG_MASKS."""
    text, whole, share = (tf.io.VarLenFeature(kind) for kind in (tf.string, tf.int64, tf.float32))
    one_text, one_number = (tf.io.FixedLenFeature([], kind) for kind in (tf.string, tf.int64))
    keys = {
        **{f"image/{key}": one_text for key in ("encoded", "format", "filename", "source_id")},
        **{f"image/{side}": one_number for side in ("height", "width")},
        **{f"image/object/bbox/{side}": share for side in SIDES},
        **{f"image/object/{key}": whole for key in ("class/label", "is_crowd", "difficult")},
        **{"image/object/class/text": text, "image/object/area": share, "image/object/mask": text},
    }
    for record in tf.data.TFRecordDataset([str(path) for path in Path(built(name).path).glob("*.tfrecord-*")]):
        found = tf.io.parse_single_example(record, keys)
        count = len(BOXES[found["image/filename"].numpy().decode()])
        for key, values in found.items():
            assert not key.startswith("image/object/") or values.dense_shape[0] in (count, 0), key
        image = tf.io.decode_image(found["image/encoded"], channels=3)
        assert image.shape == (found["image/height"], found["image/width"], 3)
        for data in found["image/object/mask"].values:
            mask = tf.squeeze(tf.io.decode_image(data, channels=1), axis=2)
            assert mask.shape == image.shape[:2]
            assert {*np.unique(mask)} <= {0, 1}


def test_files_beside_the_records_name_classes_and_shapes(built):
    objects, tfds = (Path(built(name).path) for name in ("detection_masks", "tfds"))
    items = [f'item {{\n  id: {number}\n  name: "{name}"\n}}\n' for number, name in enumerate(("cat", "dog", "emu"), 1)]
    assert (objects / "label_map.pbtxt").read_text() == "".join(items)
    assert built("detection_masks").manifest["splits"]["train"]["classes"] == {"cat": 2, "dog": 1}
    assert (tfds / "objects-label.labels.txt").read_text() == "cat\ndog\nemu\n"
    assert not (tfds / "label_map.pbtxt").exists()
    features = json.loads((Path(built("vector").path) / "features.json").read_text())["featuresDict"]["features"]
    assert features["points"]["tensor"] == {"shape": {"dimensions": ["3"]}, "dtype": "float32", "encoding": "none"}


WRONG = {
    "a small mask": ("segmentation", "mask", [picture("mask 16x8")], "the mask has height 8 and width 16"),
    "a deep mask": ("segmentation", "mask", [picture("mask 30x20 300=0,0,1,1")], "the mask is not a PNG of 8 bits"),
    "no mask": ("segmentation", "mask", [b"none"], "the mask does not decode"),
    "a small mask of an object": (
        *("detection_masks", "image/object/mask", [picture("mask 29x20")] * 2),
        "the mask has height 20 and width 29; its image 20 and 30",
    ),
    "no mask of an object": ("detection_masks", "image/object/mask", [b"none"] * 2, "the mask does not decode"),
    "few points": ("detection_polygons", "image/object/polygon", [0.5] * 6, "has 6 coordinates; its polygons have"),
    "many objects": ("detection_polygons", "image/object/polygon_points", [4] * 9, "is of 9 objects"),
    "no second image": ("several", "right", [b"none"], "feature 'right': the image does not decode"),
    "another size": ("several", "right", [picture("red 16x20")], "'right': the image has width 16; expected 30"),
    "no image of a list": ("several", "views", [b"none"], "feature 'views': the image does not decode"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_verify_finds_what_does_not_fit(built, tmp_path, what):
    name, feature, values, problem = WRONG[what]
    copy = Path(shutil.copytree(built(name).path, tmp_path / "copy"))
    (shard,) = copy.glob("*.tfrecord-*")
    examples = [Example.FromString(data) for data in records_of(shard)]
    changed = next(one for one in examples if b"a.png" in str(one.features).encode())
    stored = changed.features.feature[feature]
    getattr(stored, stored.WhichOneof("kind") or "bytes_list").value[:] = values
    shard.write_bytes(framed(*(one.SerializeToString(deterministic=True) for one in examples)))
    assert any(problem in finding for finding in open_dataset(copy).verify())


def test_the_index_describes_the_first_image(built):
    (index,) = (Path(built("several").path) / "index").iterdir()
    rows = pq.read_table(index).to_pylist()
    assert {(row["uri"], row["height"], row["width"]) for row in rows} == {(f"images/{one}", 20, 30) for one in SIZES}


# Vectors, and points that move with the image.


def with_means(sample: Sample) -> Sample:
    means = {f"mean{place}": float(sample.image[..., place].mean()) for place in range(3)}
    return sample.replace(columns={**sample.columns, **means})


def test_a_function_makes_the_columns_of_a_vector(built, tmp_path):
    source = Path(built("vector").path).parent
    layout = {"image": "image.encoded", "points": {"field": "columns.mean0..mean2", "type": "float"}}
    dataset = build(f"{source}/t.jsonl", str(tmp_path / "out"), quiet=True, layout=layout, map=with_means)
    assert {tuple(record["points"]) for record in dataset.records("train")} == {(128, 128, 128)}


@pytest.mark.parametrize("mode", ["crop", "pad", "exact"])
def test_a_reader_moves_points_as_a_build_does(tmp_path, mode):
    save(tmp_path / "0.png", picture("red 60x40"))
    save(tmp_path / "t.csv", "path,eye_x,eye_y,nose_x,nose_y,ear_x,ear_y\n0.png,20,10,30,20,5,38\n")
    points = {"field": "columns.eye_x..ear_y", "type": "float", "moves": "points"}
    settings = {"layout": {"image": "image.encoded", "points": points}, "image_encoding": "png", "quiet": True}
    resized = {"image_size": (30, 24), "resize_mode": mode}
    stored = build(f"{tmp_path}/t.csv", f"{tmp_path}/stored", **settings)
    (expected,) = build(f"{tmp_path}/t.csv", f"{tmp_path}/built", **settings, **resized).records("train")
    for record in (*stored.records("train", **resized), *load(stored, "train", **resized)):
        assert [float(side) for side in record["points"]] == pytest.approx([*expected["points"]], abs=1e-5)


# What people see.


def saved(run: Any, dataset: Dataset, name: str, path: Path) -> tuple[Any, np.ndarray]:
    """The record of an image, and its picture as `inspect` saves it."""
    keys = {"image/filename", "filename", "key"}
    records = dataset.records("train")
    number = next(n for n, one in enumerate(records) if any(str(one.get(key)).endswith(name) for key in keys))
    ran = run("inspect", f"--dataset={dataset.path}", "--split=train", f"--image={number}", f"--save={path}")
    assert ran.code == 0, ran.err
    return records[number], np.asarray(Image.open(path).convert("RGB"), int)


def test_inspect_draws_masks_in_one_color_for_each_number(built, tmp_path, run):
    dataset = built("segmentation")
    record, drawn = saved(run, dataset, "a.png", tmp_path / "x.png")
    numbers, stored = record["mask"][..., 0], record["image"].astype(int)
    np.testing.assert_array_equal(drawn[numbers == 0], stored[numbers == 0])
    # 110 of 255 parts of a color that each number has.
    colors = [(drawn - stored * 145 / 255)[numbers == number] * 255 / 110 for number in (1, 255)]
    assert all(np.abs(values - values.mean(axis=0)).max() < 4 for values in colors)
    assert np.abs(colors[0].mean(axis=0) - colors[1].mean(axis=0)).max() > 60
    shown = run("inspect", f"--dataset={dataset.path}", "--examples=1").out
    assert "a PNG of 20 x 30 pixels (height x width), L, numbers 0, 1, 255" in shown


@pytest.mark.parametrize("name", ["detection_keypoints", "tfds"])
def test_inspect_draws_boxes_and_names(built, tmp_path, run, name):
    record, drawn = saved(run, built(name), "b.png", tmp_path / "x.PNG")
    # Enlarged 21 times; the box is (10, 10, 20, 45) of 50 x 50 pixels.
    assert drawn.shape == (20 * 21, 30 * 21, 3)
    left, top, right, bottom = 0.2 * 630, 0.2 * 420, 0.4 * 630, 0.9 * 420
    colored = np.ptp(drawn, axis=2) > 100
    rows, columns = np.flatnonzero(colored[:, int(left + right) // 2]), np.flatnonzero(colored[int(bottom) - 10])
    assert (columns.min(), columns.max(), rows.max()) == pytest.approx((left, right, bottom), abs=2)
    assert np.flatnonzero(colored[:, int(left) + 4]).min() < top - 8  # the name
    image = record["image/encoded" if "image/encoded" in record else "image"] if name == "tfds" else record["image"]
    np.testing.assert_array_equal(drawn[-1, ::21], image[-1])


def test_inspect_draws_masks_of_objects(built, tmp_path, run):
    masked, drawn = saved(run, built("detection_masks"), "a.png", tmp_path / "x.png")
    _, without = saved(run, built("detection_keypoints"), "a.png", tmp_path / "y.png")
    changed = (drawn != without).any(axis=2)[10::21, 10::21]
    # Inside of the larger box: not where borders, names and keypoints are.
    inside = (slice(8, 18), slice(12, 28))
    np.testing.assert_array_equal(changed[inside], masked["image/object/mask"].any(axis=0)[inside])


def test_inspect_draws_all_images_in_a_row(built, tmp_path, run):
    record, drawn = saved(run, built("several"), "b.png", tmp_path / "x.png")
    for number, image in enumerate((record["image"], record["right"], *record["views"])):
        np.testing.assert_array_equal(drawn[:20, 30 * number : 30 * (number + 1)], image)


def test_a_picture_without_objects_is_saved_as_it_is(built, tmp_path, run):
    _, drawn = saved(run, built("detection_masks"), "c.png", tmp_path / "x.jpg")
    assert drawn.shape == (20, 30, 3)
    assert "1 (cat), 1 (cat)" in run("inspect", f"--dataset={built('detection_masks').path}", "--examples=3").out


@pytest.mark.report
@pytest.mark.parametrize("name", ["segmentation", "several"])
def test_the_report_shows_what_inspect_draws(built, tmp_path, run, name):
    dataset = built(name)
    _, drawn = saved(run, dataset, "a.png", tmp_path / "x.png")
    assert run("report", dataset.path).code == 0
    page = (Path(dataset.path) / "report.html").read_text()
    found = [
        Image.open(io.BytesIO(base64.b64decode(one))) for one in re.findall(r"data:image/jpeg;base64,([^\"]+)", page)
    ]
    shown = [np.asarray(one.convert("RGB"), int) for one in found]
    # They are JPEGs of low quality.
    assert min(np.abs(one - drawn).mean() for one in shown if one.shape == drawn.shape) < 20


def test_people_see_the_length_of_a_vector(built, run):
    dataset = built("vector")
    assert "columns.x0..x2 (3 values)" in run("inspect", f"--dataset={dataset.path}").out
    assert "float, 3 values" in (Path(dataset.path) / "README.md").read_text()


def test_a_dry_run_counts_objects(built, tmp_path, run):
    source = Path(built("tfds").path).parent
    words = [f"--input={source}/x.json", f"--image_root={source}/images", f"--output={tmp_path / 'out'}", "--dry_run"]
    shown = run("convert", *words).out
    assert "classes: cat 2, dog 1" in shown
    assert "2 cat" in shown
    assert "(no object)" in shown
