"""TensorFlow Datasets loads the datasets: every named layout, with its class names."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from beam_tfrecords import load, open_dataset
from beam_tfrecords.grain import RecordSource
from beam_tfrecords.torch import RecordDataset, RecordStream
from tests.annotated_inputs import CATEGORIES, PICTURES, save_pictures, write_captions, write_coco
from tests.refusals import refuses
from tests.tiff_files import tiff_of

pytestmark = pytest.mark.nightly


@pytest.fixture
def classes(photos) -> list[str]:
    return sorted(folder.name for folder in photos.iterdir())


@pytest.fixture
def build_tfds(build) -> Callable[..., tfds.core.DatasetBuilder]:
    """Builds a dataset from an output folder and flags; returns what TFDS makes of it."""
    return lambda output, *flags: tfds.builder_from_directory(str(build(output, *flags)))


def test_the_default_layout_loads_with_splits_images_and_class_names(tmp_path, photos, classes, build_tfds):
    builder = build_tfds(tmp_path, f"--input={photos}", "--image_size=64", "--splits=train=0.8,validation=0.2")
    assert builder.info.features["label"].names == classes
    assert builder.info.splits["train"].num_examples + builder.info.splits["validation"].num_examples == 42
    examples = list(builder.as_dataset(split="train+validation").as_numpy_iterator())
    assert len(examples) == 42
    for example in examples:
        assert min(example["image"].shape[:2]) == 64
        assert example["filename"].decode().startswith(classes[example["label"]])


def test_images_with_their_labels_load_as_supervised(tmp_path, photos, build_tfds):
    builder = build_tfds(tmp_path, f"--input={photos}", "--image_size=32")
    pairs = list(builder.as_dataset(split="train", as_supervised=True).as_numpy_iterator())
    examples = list(builder.as_dataset(split="train").as_numpy_iterator())
    for (image, label), example in zip(pairs, examples, strict=True):
        np.testing.assert_array_equal(image, example["image"])
        assert label == example["label"]


def test_sub_splits_can_be_read(tmp_path, photos, build_tfds):
    builder = build_tfds(tmp_path, f"--input={photos}", "--image_size=32", "--num_shards=4")
    assert builder.info.splits["train"].num_shards == 4
    assert len(list(builder.as_dataset(split="train[:10]"))) == 10


def test_the_imagenet_layout_loads_nested(tmp_path, photos, classes, build_tfds):
    builder = build_tfds(tmp_path, f"--input={photos}", "--image_size=64", "--layout=imagenet")
    assert builder.info.features["image"]["class"]["label"].names == classes
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        image = example["image"]
        assert image["encoded"].shape == (image["height"], image["width"], 3)
        assert image["class"]["text"].decode() == classes[image["class"]["label"]]


def test_raw_pixels_of_one_size_load_as_arrays(tmp_path, photos, build_tfds):
    flags = ["--image_size=24x32", "--resize_mode=exact", "--image_encoding=raw"]
    builder = build_tfds(tmp_path, f"--input={photos}", *flags)
    theirs = {example["filename"]: example["image"] for example in builder.as_dataset("train").as_numpy_iterator()}
    assert len(theirs) == 42
    for example in load(str(tmp_path), "train").as_numpy_iterator():
        np.testing.assert_array_equal(theirs[example["filename"]], example["image"])


@pytest.mark.parametrize(
    "flags",
    [
        ["--image_encoding=png"],
        ["--image_encoding=webp"],
        ["--layout=tutorial", "--image_encoding=keep"],
        ["--layout=raw"],
    ],
)
def test_every_encoding_and_layout_loads(tmp_path, flags, photos, build_tfds):
    builder = build_tfds(tmp_path, f"--input={photos}", "--image_size=32", *flags)
    assert len(list(builder.as_dataset(split="train"))) == 42


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_16_bits_load_as_uint16(tmp_path, photos, build_tfds, channels):
    flags = ["--image_encoding=png", "--bit_depth=16", f"--channels={channels}", "--image_size=32"]
    builder = build_tfds(tmp_path, f"--input={photos}", *flags)
    theirs = {example["filename"]: example["image"] for example in builder.as_dataset("train").as_numpy_iterator()}
    for example in load(str(tmp_path), "train").as_numpy_iterator():
        assert theirs[example["filename"]].dtype == np.uint16
        np.testing.assert_array_equal(theirs[example["filename"]], example["image"])


def test_a_feature_whose_name_begins_the_name_of_another_loads_flat(tmp_path, photos, build_tfds):
    spec = tmp_path / "spec.yaml"
    spec.write_text("layout: {image: image.encoded, image/height: image.height, label: label.index}")
    builder = build_tfds(tmp_path / "out", f"--input={photos}", "--image_size=32", f"--spec={spec}")
    assert len(list(builder.as_dataset(split="train"))) == 42


def test_tables_and_several_labels_load(tmp_path, build_tfds):
    (tmp_path / "images").mkdir()
    Image.new("RGB", (8, 8), "red").save(tmp_path / "images/1.png")
    with (tmp_path / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["image", "label", "weight"], ["images/1.png", "cat", "0.5"]])
    spec = tmp_path / "spec.yaml"
    spec.write_text("layout: {label: label.index, labels: labels.index, weight: {field: column.weight, type: float}}")
    builder = build_tfds(tmp_path / "out", f"--input={tmp_path / 'table.csv'}", f"--spec={spec}", "--class_names=cat")
    (example,) = builder.as_dataset(split="train").as_numpy_iterator()
    assert (example["label"], list(example["labels"]), example["weight"]) == (0, [0], 0.5)


def test_classes_and_vectors_of_columns_load(tmp_path, build_tfds):
    rows = [["image", "gender", "age", "x0", "x1"]]
    for number in range(6):
        Image.new("RGB", (8, 8), (30 * number, 0, 0)).save(tmp_path / f"{number}.png")
        rows.append([f"{number}.png", "mf"[number % 2], number % 3, number, number / 2])
    with (tmp_path / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "layout: {image: image.encoded, face/gender: {field: column.gender, type: class}, "
        "age: {field: column.age, type: class}, points: {field: columns.x0..x1, type: float}}"
    )
    builder = build_tfds(tmp_path / "out", f"--input={tmp_path / 'table.csv'}", f"--spec={spec}")
    features = builder.info.features
    assert (features["face"]["gender"].names, features["age"].names) == (["f", "m"], ["0", "1", "2"])
    assert features["points"].shape == (2,)
    theirs = sorted(
        (*example["points"].tolist(), int(example["face"]["gender"]), int(example["age"]))
        for example in builder.as_dataset(split="train").as_numpy_iterator()
    )
    assert theirs == [(n, n / 2, int(n % 2 == 0), n % 3) for n in range(6)]
    records = RecordDataset(open_dataset(tmp_path / "out").records("train"))
    items = [records[number] for number in range(len(records))]
    ours = [(*item["points"].tolist(), int(item["face/gender"]), int(item["age"])) for item in items]
    assert sorted(ours) == theirs


@pytest.mark.parametrize("encoding", ["jpeg", "png", "raw"])
def test_several_images_and_lists_of_them_load_as_tfds_has_them(tmp_path, photos, build_tfds, encoding):
    paths = [str(path) for path in sorted(photos.rglob("*.jpg"))[:6]]
    rows = [
        {"left": path, "right": paths[-number], "views": paths[:number], "label": "x"}
        for number, path in enumerate(paths)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ["--image_column=left,right,views", "--allow_outside_root", f"--image_encoding={encoding}"]
    more = ["--image_size=20x30", "--resize_mode=crop", "--class_names=x"]
    builder = build_tfds(tmp_path / "out", f"--input={tmp_path / 't.jsonl'}", *flags, *more)
    if encoding == "raw":
        image = tfds.features.Tensor(shape=(20, 30, 3), dtype=np.uint8, encoding="bytes")
    else:
        image = tfds.features.Image(shape=(20, 30, 3), encoding_format=encoding)
    features = tfds.features.FeaturesDict(
        {
            "left": image,
            "right": image,
            "views": tfds.features.Sequence(image),
            "label": tfds.features.ClassLabel(names=["x"]),
            "filename": tfds.features.Scalar(np.object_),
        }
    )
    features.save_config(str(tmp_path))
    ours, theirs = (json.loads((folder / "features.json").read_text()) for folder in (tmp_path / "out", tmp_path))
    assert ours == theirs
    loaded = {one["filename"]: one for one in load(tmp_path / "out", "train").as_numpy_iterator()}
    examples = list(builder.as_dataset(split="train").as_numpy_iterator())
    assert sorted(len(example["views"]) for example in examples) == list(range(6))
    for example in examples:
        for name in ("left", "right", "views"):
            # TFDS decodes JPEGs less exactly.
            most = 20 if encoding == "jpeg" else 0
            np.testing.assert_allclose(example[name].astype(int), loaded[example["filename"]][name], rtol=0, atol=most)


class Flowers(tfds.core.GeneratorBasedBuilder):
    """A dataset by TFDS: an image, a class, a text and a number."""

    VERSION = tfds.core.Version("1.0.0")
    PHOTOS: ClassVar[list[Path]] = []
    CLASSES: ClassVar[list[str]] = []

    def _info(self):
        features = {
            "image": tfds.features.Image(encoding_format="jpeg"),
            "label": tfds.features.ClassLabel(names=self.CLASSES),
            "name": tfds.features.Text(),
            "number": np.int64,
        }
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(self.PHOTOS[::2]), "test": self._generate_examples(self.PHOTOS[1::2])}

    def _generate_examples(self, photos):
        for number, path in enumerate(photos):
            example = {"image": str(path), "label": path.parent.name, "name": path.name, "number": number}
            yield path.name, example


def test_a_dataset_of_tfds_is_converted_with_its_bytes_classes_and_splits(tmp_path, photos, classes, build):
    Flowers.PHOTOS = sorted(photos.rglob("*.jpg"))
    Flowers.CLASSES = classes[::-1]
    builder = Flowers(data_dir=tmp_path / "tfds")
    builder.download_and_prepare()
    words = ["--source=tfrecord", f"--input={builder.data_path}", "--key_column=name", "--image_encoding=keep"]
    out = build(tmp_path / "out", *words, "--name=flowers")
    assert (out / "label.labels.txt").read_text().split() == classes[::-1]
    for split, chosen in (("train", Flowers.PHOTOS[::2]), ("test", Flowers.PHOTOS[1::2])):
        (shard,) = out.glob(f"flowers-{split}.tfrecord-*")
        found = []
        for data in tf.data.TFRecordDataset(str(shard)):
            feature = tf.train.Example.FromString(data.numpy()).features.feature
            image, name = (feature[key].bytes_list.value[0] for key in ("image", "filename"))
            found.append((image, feature["label"].int64_list.value[0], name.decode()))
        expected = [(path.read_bytes(), classes[::-1].index(path.parent.name), path.name) for path in chosen]
        assert sorted(found) == sorted(expected)


class Sentences(tfds.core.GeneratorBasedBuilder):
    """A dataset by TFDS without images: a class, a text, a vector, and lists."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {
            "label": tfds.features.ClassLabel(names=["no", "yes"]),
            "text": tfds.features.Text(),
            "vector": tfds.features.Tensor(shape=(3,), dtype=np.float32),
            "words": tfds.features.Sequence(tfds.features.Text()),
            "spans": {"begin": tfds.features.Sequence(np.int64)},
        }
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(range(20)), "test": self._generate_examples(range(20, 30))}

    def _generate_examples(self, numbers):
        for number in numbers:
            lists = {"words": [f"w{n}" for n in range(number % 4)], "spans": {"begin": [*range(number % 3)]}}
            vector = np.full(3, number, np.float32)
            yield number, {"label": number % 2, "text": f"text {number}", "vector": vector, **lists}


def test_records_that_are_kept_load_as_those_of_tfds(tmp_path, build_tfds):
    theirs = Sentences(data_dir=tmp_path / "tfds")
    theirs.download_and_prepare()
    words = ["--source=tfrecord", f"--input={theirs.data_path}", "--layout=same", "--key_column=text", "--name=kept"]
    ours = build_tfds(tmp_path / "out", *words)
    assert ours.info.features["label"].names == ["no", "yes"]

    def content(builder, split):
        examples = builder.as_dataset(split=split).as_numpy_iterator()
        found = {one["text"]: one for one in examples}
        return {
            text: repr(tf.nest.map_structure(lambda value: np.asarray(value).tolist(), one))
            for text, one in found.items()
        }

    for split in ("train", "test"):
        assert content(ours, split) == content(theirs, split)


@pytest.fixture
def annotated(tmp_path) -> list[str]:
    save_pictures(tmp_path / "in")
    return [f"--input={write_coco(tmp_path / 'in/instances.json')}", "--image_size=20x30", "--resize_mode=exact"]


def test_objects_load_as_tfds_has_them(tmp_path, annotated, build_tfds):
    builder = build_tfds(tmp_path / "out", *annotated, "--layout=tfds")
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(shape=(20, 30, 3), encoding_format="jpeg"),
            "filename": tfds.features.Scalar(np.object_),
            "objects": tfds.features.Sequence(
                {"bbox": tfds.features.BBoxFeature(), "label": tfds.features.ClassLabel(names=list(CATEGORIES))}
            ),
        }
    )
    features.save_config(str(tmp_path))
    ours, theirs = (json.loads((folder / "features.json").read_text()) for folder in (tmp_path / "out", tmp_path))
    assert ours["featuresDict"]["features"]["objects"] == theirs["featuresDict"]["features"]["objects"]
    assert builder.info.features["objects"]["label"].names == list(CATEGORIES)
    examples = {one["filename"].decode(): one for one in builder.as_dataset(split="train").as_numpy_iterator()}
    for name, picture in PICTURES.items():
        objects = examples[name]["objects"]
        boxes = [(ymin, xmin, ymax, xmax) for _, (xmin, ymin, xmax, ymax) in picture.objects]
        expected = np.reshape(boxes, (-1, 4)) / ([picture.height, picture.width] * 2)
        np.testing.assert_allclose(objects["bbox"], expected, rtol=1e-6)
        assert [list(CATEGORIES)[label] for label in objects["label"]] == [label for label, _ in picture.objects]


def test_captions_load_as_a_sequence_of_texts(tmp_path, build_tfds):
    save_pictures(tmp_path / "in")
    builder = build_tfds(
        tmp_path / "out", f"--input={write_captions(tmp_path / 'in/captions_train.json')}", "--image_size=20"
    )
    assert repr(builder.info.features["captions"]) == repr(tfds.features.Sequence(tfds.features.Scalar(np.object_)))
    examples = list(builder.as_dataset(split="train").as_numpy_iterator())
    assert len(examples) == len(PICTURES)
    for example in examples:
        name = example["filename"].decode()
        assert [text.decode() for text in example["captions"]] == [
            f"a picture of {name}", f"the same, {name}, ünd longer"
        ]  # fmt: skip
        assert example["image"].shape[2] == 3


def test_masks_of_objects_load_as_images(tmp_path, annotated, build_tfds):
    builder = build_tfds(tmp_path / "out", *annotated, "--layout=detection_masks")
    ours = {record["image/filename"]: record for record in open_dataset(tmp_path / "out").records("train")}
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        image = example["image"]
        masks = ours[image["filename"].decode()]["image/object/mask"]
        assert masks.any() == bool(PICTURES[image["filename"].decode()].objects)
        np.testing.assert_array_equal(image["object"]["mask"], masks[..., None])


def test_masks_are_beside_the_boxes_in_a_layout_as_tfds_has_objects(tmp_path, annotated, build_tfds):
    fields = {"image": "image.encoded", "objects/bbox": "objects.bbox", "objects/mask": "objects.mask"}
    (tmp_path / "spec.json").write_text(json.dumps({"layout": fields}))
    builder = build_tfds(tmp_path / "out", *annotated, f"--spec={tmp_path / 'spec.json'}")
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(shape=(20, 30, 3), encoding_format="jpeg"),
            "objects": tfds.features.Sequence(
                {
                    "bbox": tfds.features.BBoxFeature(),
                    "mask": tfds.features.Image(shape=(20, 30, 1), encoding_format="png"),
                }
            ),
        }
    )
    features.save_config(str(tmp_path))
    written, expected = (json.loads((folder / "features.json").read_text()) for folder in (tmp_path / "out", tmp_path))
    assert written == expected
    shapes = {example["objects"]["mask"].shape for example in builder.as_dataset(split="train").as_numpy_iterator()}
    assert shapes == {(len(picture.objects), 20, 30, 1) for picture in PICTURES.values()}


def test_the_layout_of_the_object_detection_api_loads_nested(tmp_path, annotated, build_tfds):
    builder = build_tfds(tmp_path / "out", *annotated)
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        image = example["image"]
        objects = PICTURES[image["filename"].decode()].objects
        assert [text.decode() for text in image["object"]["class"]["text"]] == [label for label, _ in objects]
        assert image["object"]["bbox"]["xmax"].shape == (len(objects),)
        assert image["encoded"].shape == (20, 30, 3)


@pytest.mark.parametrize("bit_depth", [8, 16])
def test_images_with_masks_load_as_tfds_has_them(tmp_path, photos, build_tfds, bit_depth):
    masks = {}
    for number, photo in enumerate(sorted(photos.rglob("*.jpg"))[:6]):
        with Image.open(photo) as image:
            image.resize((40, 30)).save(tmp_path / f"{number}.jpg")
        masks[f"{number}.jpg"] = np.random.default_rng(number).integers(0, 200, (30, 40), np.uint8)
        Image.fromarray(masks[f"{number}.jpg"]).save(tmp_path / f"{number}_mask.png")
    flags = ["--image_size=30x40", "--resize_mode=exact", "--layout=segmentation", f"--mask_bit_depth={bit_depth}"]
    builder = build_tfds(tmp_path / "out", f"--input={tmp_path}/*.*", "--mask_suffix=_mask", *flags)
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(shape=(30, 40, 3), encoding_format="jpeg"),
            "mask": tfds.features.Image(
                shape=(30, 40, 1), dtype=np.dtype(f"uint{bit_depth}").type, encoding_format="png"
            ),
            "filename": tfds.features.Scalar(np.object_),
        }
    )
    features.save_config(str(tmp_path))
    ours, theirs = (json.loads((folder / "features.json").read_text()) for folder in (tmp_path / "out", tmp_path))
    assert ours["featuresDict"]["features"]["mask"] == theirs["featuresDict"]["features"]["mask"]
    examples = {one["filename"].decode(): one for one in builder.as_dataset(split="train").as_numpy_iterator()}
    assert sorted(examples) == sorted(masks)
    for name, example in examples.items():
        np.testing.assert_array_equal(example["mask"][..., 0], masks[name])
    pairs = builder.as_dataset(split="train", as_supervised=True).as_numpy_iterator()
    assert [(image.shape, mask.shape) for image, mask in pairs] == [((30, 40, 3), (30, 40, 1))] * 6


@pytest.mark.parametrize("seed", range(40))
def test_split_expressions_name_the_same_records(shards_of_splits, seed):
    dataset, builder = shards_of_splits
    chance = random.Random(seed)

    def part(split: str) -> str:
        # TFDS refuses bounds beyond the split and ends before their begins, and takes the unit of one bound for both.
        unit, whole = chance.choice([("", dataset.splits[split]), ("%", 100)])
        begin, end = chance.randint(0, whole // 2), chance.randint(whole // 2, whole - 1)
        begin, end = (chance.choice(["", f"{bound}{unit}", f"{bound - whole}{unit}"]) for bound in (begin, end))
        return f"{split}[{begin}:{end}]" if begin or end else split

    expression = "+".join(part(chance.choice([*dataset.splits])) for _ in range(chance.randint(1, 3)))
    config = tfds.ReadConfig(interleave_cycle_length=1)
    decoders = {"image": tfds.decode.SkipDecoding()}
    try:
        theirs = builder.as_dataset(split=expression, read_config=config, decoders=decoders)
    except ValueError:  # no record
        with refuses("empty_split"):
            dataset.records(expression)
        return
    names = [example["filename"].decode() for example in theirs.as_numpy_iterator()]
    records = dataset.records(expression)
    loaded = load(dataset.path, expression, decode=False).as_numpy_iterator()
    assert [example["filename"].decode() for example in loaded] == names, expression
    for reader in (records, RecordDataset(records), RecordStream(records, batch_size=3), RecordSource(records)):
        assert [example["filename"] for example in reader] == names, (reader, expression)


@pytest.fixture(scope="module")
def shards_of_splits(tmp_path_factory, photos, build):
    """A dataset with several shards in each of three splits, and the builder of TFDS for it."""
    flags = ["--image_size=16", "--num_shards=3", "--splits=train=0.6,validation=0.2,test=0.2"]
    out = build(tmp_path_factory.mktemp("tfds_splits") / "out", f"--input={photos}", *flags)
    return open_dataset(out), tfds.builder_from_directory(out)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_arrays_load_as_tensors_of_their_type(tmp_path, build_tfds, dtype):
    arrays = {f"{n}.tif": np.random.default_rng(n).integers(0, 250, (12, 10, 13)).astype(dtype) for n in range(4)}
    (tmp_path / "in").mkdir()
    for name, pixels in arrays.items():
        (tmp_path / "in" / name).write_bytes(tiff_of(pixels))
    builder = build_tfds(tmp_path / "out", f"--input={tmp_path}/in", "--layout=array")
    assert builder.info.features["image"].shape == (12, 10, 13)
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        assert example["image"].dtype == dtype
        np.testing.assert_array_equal(example["image"], arrays[example["filename"].decode()])
    records = open_dataset(tmp_path / "out")["train"]
    expected = arrays[records[0]["filename"]]
    np.testing.assert_array_equal(RecordSource(records)[0]["image"], expected)
    np.testing.assert_array_equal(RecordDataset(records)[0]["image"], expected)
