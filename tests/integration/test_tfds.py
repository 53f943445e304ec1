"""TensorFlow Datasets loads every layout as its own code would describe it, and what it writes is converted."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from beam_tfrecords import load, open_dataset
from beam_tfrecords.grain import RecordSource
from beam_tfrecords.torch import RecordDataset, RecordStream
from tests.annotated_inputs import CATEGORIES, save_pictures, write_captions, write_coco
from tests.framing import Example, records_of
from tests.refusals import refuses
from tests.tiff_files import tiff_of

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data/photos"
CLASSES = sorted(folder.name for folder in PHOTOS.iterdir())
TEXT = tfds.features.Scalar(np.object_)


def image(*shape: int, of: str = "jpeg", dtype: Any = np.uint8) -> Any:
    if of == "raw":
        return tfds.features.Tensor(shape=shape, dtype=dtype, encoding="bytes")
    return tfds.features.Image(shape=shape, dtype=dtype, encoding_format=of)


# What writes an input into a folder; returns flags.


def photos(folder: Path) -> list[str]:
    return [f"--input={PHOTOS}"]


def coco(folder: Path) -> list[str]:
    save_pictures(folder / "in")
    return [f"--input={write_coco(folder / 'in/instances.json')}", "--image_size=20x30", "--resize_mode=exact"]


def captions(folder: Path) -> list[str]:
    save_pictures(folder / "in")
    return [f"--input={write_captions(folder / 'in/captions_train.json')}", "--image_size=20"]


def table(folder: Path) -> list[str]:
    rows = [["image", "label", "weight", "gender", "age", "x0", "x1"]]
    for number in range(6):
        Image.new("RGB", (8, 8), (30 * number, 0, 0)).save(folder / f"{number}.png")
        rows.append([f"{number}.png", "cat", "0.5", "mf"[number % 2], number % 3, number, number / 2])
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return [f"--input={folder / 'table.csv'}", "--image_encoding=png"]


def several(folder: Path) -> list[str]:
    paths = [str(path) for path in sorted(PHOTOS.rglob("*.jpg"))[:6]]
    rows = [
        {"left": path, "right": paths[-number], "views": paths[:number], "label": "x"}
        for number, path in enumerate(paths)
    ]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ["--image_column=left,right,views", "--allow_outside_root", "--class_names=x"]
    return [f"--input={folder / 't.jsonl'}", *flags, "--image_size=20x30", "--resize_mode=crop"]


def masks(folder: Path) -> list[str]:
    for number, photo in enumerate(sorted(PHOTOS.rglob("*.jpg"))[:6]):
        with Image.open(photo) as opened:
            opened.resize((40, 30)).save(folder / f"{number}.jpg")
        mask = np.random.default_rng(number).integers(0, 200, (30, 40), np.uint8)
        Image.fromarray(mask).save(folder / f"{number}_mask.png")
    flags = ["--mask_suffix=_mask", "--image_size=30x40", "--resize_mode=exact", "--layout=segmentation"]
    return [f"--input={folder}/*.*", *flags]


def arrays(dtype: str) -> Callable[[Path], list[str]]:
    def write(folder: Path) -> list[str]:
        (folder / "in").mkdir()
        for number in range(4):
            pixels = np.random.default_rng(number).integers(0, 250, (12, 10, 13)).astype(dtype)
            (folder / "in" / f"{number}.tif").write_bytes(tiff_of(pixels))
        return [f"--input={folder}/in", "--layout=array"]

    return write


_LABEL = tfds.features.ClassLabel
_PLAIN = {"label": _LABEL(names=CLASSES), "filename": TEXT}
_OBJECTS = {"bbox": tfds.features.BBoxFeature(), "label": _LABEL(names=list(CATEGORIES))}
_24 = ("--image_size=24x32", "--resize_mode=exact")


class Layout(NamedTuple):
    """A dataset that TFDS loads.

    Attributes:
      write: writes the input into a folder; returns flags.
      flags: others.
      layout: a mapping of features, or None for the one that follows from the flags.
      features: as TFDS describes them; None where it has no word for one of them.
    """

    write: Callable[[Path], list[str]]
    flags: tuple[str, ...] = ()
    layout: Any = None
    features: Any = None


_SMALL = "--image_size=32"
_PNG = "--image_encoding=png"
_16 = (_SMALL, _PNG, "--bit_depth=16")
_IMAGE = {"image": "image.encoded"}
LAYOUTS = {
    "default": Layout(photos, (_SMALL,), features={"image": image(None, None, 3), **_PLAIN}),
    "splits": Layout(photos, ("--image_size=64", "--splits=train=0.8,validation=0.2")),
    "imagenet": Layout(photos, ("--image_size=64", "--layout=imagenet")),
    "tutorial": Layout(photos, ("--layout=tutorial", "--image_encoding=keep")),
    "of raw pixels": Layout(photos, ("--layout=raw", _SMALL)),
    "webp": Layout(photos, (_SMALL, "--image_encoding=webp")),
    "png": Layout(photos, (_SMALL, _PNG), features={"image": image(None, None, 3, of="png"), **_PLAIN}),
    "raw": Layout(photos, (*_24, "--image_encoding=raw"), features={"image": image(24, 32, 3, of="raw"), **_PLAIN}),
    "16 bits": Layout(photos, _16, features={"image": image(None, None, 3, of="png", dtype=np.uint16), **_PLAIN}),
    "16 bits of gray": Layout(
        photos, (*_16, "--channels=1"), features={"image": image(None, None, 1, of="png", dtype=np.uint16), **_PLAIN}
    ),
    "a name that begins another": Layout(
        photos, (_SMALL,), layout={**_IMAGE, "image/height": "image.height", "label": "label.index"}
    ),
    "labels": Layout(
        table,
        ("--class_names=cat",),
        layout={
            "label": "label.index",
            "labels": "labels.index",
            "weight": {"field": "column.weight", "type": "float"},
        },
    ),
    "classes and vectors": Layout(
        table,
        layout={
            **_IMAGE,
            "face/gender": {"field": "column.gender", "type": "class"},
            "age": {"field": "column.age", "type": "class"},
            "points": {"field": "columns.x0..x1", "type": "float"},
        },
    ),
    **{
        f"several images, {kind}": Layout(
            several,
            (f"--image_encoding={kind}",),
            features={
                **dict.fromkeys(("left", "right"), image(20, 30, 3, of=kind)),
                "views": tfds.features.Sequence(image(20, 30, 3, of=kind)),
                "label": _LABEL(names=["x"]),
                "filename": TEXT,
            },
        )
        for kind in ("jpeg", "png", "raw")
    },
    "objects": Layout(
        coco,
        ("--layout=tfds",),
        features={"image": image(20, 30, 3), "filename": TEXT, "objects": tfds.features.Sequence(_OBJECTS)},
    ),
    "objects of the detection API": Layout(coco),
    "masks of objects": Layout(coco, ("--layout=detection_masks",)),
    "masks beside boxes": Layout(
        coco,
        layout={**_IMAGE, "objects/bbox": "objects.bbox", "objects/mask": "objects.mask"},
        features={
            "image": image(20, 30, 3),
            "objects": tfds.features.Sequence({"bbox": _OBJECTS["bbox"], "mask": image(20, 30, 1, of="png")}),
        },
    ),
    "captions": Layout(
        captions, features={"captions": tfds.features.Sequence(TEXT), "filename": TEXT, "image": image(None, None, 3)}
    ),
    **{
        f"masks of {bits} bits": Layout(
            masks,
            (f"--mask_bit_depth={bits}",),
            features={
                "image": image(30, 40, 3),
                "filename": TEXT,
                "mask": image(30, 40, 1, of="png", dtype=np.dtype(f"uint{bits}").type),
            },
        )
        for bits in (8, 16)
    },
    **{f"arrays of {dtype}": Layout(arrays(dtype)) for dtype in ("uint8", "uint16", "float32")},
}


def flat(example: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The features of nested dicts, by their whole names."""
    if isinstance(example, dict):
        for key, value in example.items():
            yield from flat(value, f"{name}/{key}" if name else key)
    else:
        yield name, example


def check_value(theirs: Any, ours: Any, *, most: float) -> None:
    """Compares a feature; TFDS has texts as bytes, masks with one channel, and decodes JPEGs less exactly."""
    if isinstance(ours, np.ndarray) and isinstance(theirs, bytes):  # an image that TFDS has no word for
        is_raw = len(theirs) == ours.nbytes
        theirs = theirs if is_raw else Image.open(io.BytesIO(theirs)).convert("RGB").tobytes()
        theirs = np.frombuffer(theirs, ours.dtype)
    if isinstance(ours, str):
        assert theirs.decode() == ours
    elif isinstance(ours, list) and all(isinstance(one, str) for one in ours):
        assert [one.decode() for one in theirs] == ours
    elif isinstance(ours, list):
        for one, other in zip(theirs, ours, strict=True):
            check_value(one, other, most=most)
    else:
        theirs, ours = np.asarray(theirs), np.asarray(ours)
        assert theirs.dtype == ours.dtype
        wide = ours.dtype == np.uint8 and ours.ndim >= 3
        np.testing.assert_allclose(theirs.reshape(ours.shape).astype(float), ours, rtol=0, atol=most if wide else 0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_described_as_tfds_describes_it_and_loads_with_our_values(tmp_path, build, name):
    write, flags, layout, described = LAYOUTS[name]
    words = [*write(tmp_path), *flags]
    if layout:
        (tmp_path / "spec.json").write_text(json.dumps({"layout": layout}))
        words.append(f"--spec={tmp_path / 'spec.json'}")
    dataset = open_dataset(build(tmp_path / "out", *words))
    if described:
        tfds.features.FeaturesDict(described).save_config(str(tmp_path))
        ours, theirs = (json.loads((folder / "features.json").read_text()) for folder in (tmp_path / "out", tmp_path))
        assert ours == theirs
    builder = tfds.builder_from_directory(str(dataset.path))
    names = {split: info.num_examples for split, info in builder.info.splits.items()}
    assert names == dataset.splits
    for feature, found in flat_features(builder.info.features):
        if isinstance(found, _LABEL):
            assert tuple(found.names) == tuple(dataset.features[feature].class_names)
    most = 0 if {"--image_encoding=png", "--image_encoding=raw", "--layout=raw", "--layout=array"} & {*words} else 24
    config = tfds.ReadConfig(interleave_cycle_length=1)
    for split in dataset.splits:
        examples = builder.as_dataset(split=split, read_config=config).as_numpy_iterator()
        for theirs, ours in zip(examples, dataset[split], strict=True):
            found = dict(flat(theirs))
            # The image of these layouts is `image` for us.
            if "image" not in found and "image" in ours:
                (name,) = {"image/encoded", "image_raw"} & found.keys()
                found["image"] = found.pop(name)
            assert found.keys() == ours.keys()
            for key, value in ours.items():
                check_value(found[key], value, most=most)


def flat_features(features: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for key, one in features.items():
        path = f"{name}/{key}" if name else key
        inner = getattr(one, "feature", one)
        yield from flat_features(inner, path) if isinstance(inner, tfds.features.FeaturesDict) else [(path, inner)]


def test_examples_load_as_supervised_and_sub_splits_can_be_read(tmp_path, build):
    out = build(tmp_path, f"--input={PHOTOS}", "--image_size=32", "--num_shards=4")
    builder = tfds.builder_from_directory(str(out))
    pairs = list(builder.as_dataset(split="train", as_supervised=True).as_numpy_iterator())
    examples = list(builder.as_dataset(split="train").as_numpy_iterator())
    for (pixels, label), example in zip(pairs, examples, strict=True):
        np.testing.assert_array_equal(pixels, example["image"])
        assert label == example["label"]
    assert builder.info.splits["train"].num_shards == 4
    assert len(list(builder.as_dataset(split="train[:10]"))) == 10


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
    readers = min(3, len(names))
    shares = [load(dataset.path, expression, num_readers=readers, reader_index=number) for number in range(readers)]
    read = [one["filename"].decode() for share in shares for one in share.as_numpy_iterator()]
    assert read == names[: len(names) // readers * readers]


@pytest.fixture(scope="module")
def shards_of_splits(tmp_path_factory, build):
    """A dataset with several shards in each of three splits, and the builder of TFDS for it."""
    flags = ["--image_size=16", "--num_shards=3", "--splits=train=0.6,validation=0.2,test=0.2"]
    out = build(tmp_path_factory.mktemp("tfds_splits") / "out", f"--input={PHOTOS}", *flags)
    return open_dataset(out), tfds.builder_from_directory(out)


# Datasets that TFDS has written


class Made(tfds.core.GeneratorBasedBuilder):
    """A dataset of given features and examples; the arguments are those of `write_dataset`."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, features: dict[str, Any], splits: dict[str, list[dict[str, Any]]], **options: Any) -> None:
        self.features, self.splits = features, splits
        super().__init__(**options)

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(self.features))

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[Any]]:
        return {split: self._generate_examples(examples) for split, examples in self.splits.items()}

    def _generate_examples(self, examples: list[dict[str, Any]]) -> Iterator[Any]:
        yield from enumerate(examples)


def write_dataset(folder: Path, features: dict[str, Any], splits: dict[str, list[dict[str, Any]]]) -> Made:
    """Writes a dataset, with the examples of each split."""
    builder = Made(features, splits, data_dir=folder)
    builder.download_and_prepare()
    return builder


def test_a_dataset_of_tfds_is_converted_with_its_bytes_classes_and_splits(tmp_path, build):
    paths, names = sorted(PHOTOS.rglob("*.jpg")), CLASSES[::-1]
    features = {"image": image(None, None, 3), "label": _LABEL(names=names), "name": tfds.features.Text()}
    splits = {
        split: [{"image": str(path), "label": path.parent.name, "name": path.name} for path in chosen]
        for split, chosen in (("train", paths[::2]), ("test", paths[1::2]))
    }
    data = write_dataset(tmp_path / "tfds", features, splits).data_path
    words = ["--source=tfrecord", f"--input={data}", "--key_column=name", "--image_encoding=keep"]
    out = build(tmp_path / "out", *words, "--name=flowers")
    assert (out / "label.labels.txt").read_text().split() == names
    for split, examples in splits.items():
        (shard,) = out.glob(f"flowers-{split}.tfrecord-*")
        found = []
        for feature in (Example.FromString(data).features.feature for data in records_of(shard)):
            pixels, name = (feature[key].bytes_list.value[0] for key in ("image", "filename"))
            found.append((pixels, names[feature["label"].int64_list.value[0]], name.decode()))
        expected = [(Path(one["image"]).read_bytes(), one["label"], one["name"]) for one in examples]
        assert sorted(found) == sorted(expected)


def test_records_that_are_kept_load_as_those_of_tfds(tmp_path, build):
    features = {
        "label": _LABEL(names=["no", "yes"]),
        "text": tfds.features.Text(),
        "vector": tfds.features.Tensor(shape=(3,), dtype=np.float32),
        "words": tfds.features.Sequence(tfds.features.Text()),
        "spans": {"begin": tfds.features.Sequence(np.int64)},
    }
    examples = [
        {
            "label": number % 2,
            "text": f"text {number}",
            "vector": np.full(3, number, np.float32),
            "words": [f"w{n}" for n in range(number % 4)],
            "spans": {"begin": [*range(number % 3)]},
        }
        for number in range(30)
    ]
    theirs = write_dataset(tmp_path / "tfds", features, {"train": examples[:20], "test": examples[20:]})
    words = ["--source=tfrecord", f"--input={theirs.data_path}", "--layout=same", "--key_column=text", "--name=kept"]
    ours = tfds.builder_from_directory(str(build(tmp_path / "out", *words)))
    assert ours.info.features["label"].names == ["no", "yes"]

    def content(builder: Any, split: str) -> dict[bytes, str]:
        as_lists = (
            tf.nest.map_structure(lambda value: np.asarray(value).tolist(), one)
            for one in builder.as_dataset(split=split).as_numpy_iterator()
        )
        return {one["text"]: repr(one) for one in as_lists}

    for split in ("train", "test"):
        assert content(ours, split) == content(theirs, split)


COLORS = np.random.default_rng(0).integers(0, 256, (9, 6, 5, 3), dtype=np.uint8)


def write_tensors(folder: Path, images: np.ndarray, encoding: str) -> str:
    """Writes images as tensors, with the class of each; returns the folder."""
    tensor = tfds.features.Tensor(shape=images.shape[1:], dtype=images.dtype.type, encoding=encoding)
    examples = [{"image": pixels, "label": number % 3} for number, pixels in enumerate(images)]
    features = {"image": tensor, "label": _LABEL(names=["a", "b", "c"])}
    return str(write_dataset(folder, features, {"train": examples}).data_path)


@pytest.mark.parametrize("encoding", ["none", "bytes"])
@pytest.mark.parametrize("images", [COLORS, COLORS[..., 0], COLORS.astype(np.float32) / 255], ids=["u8", "grey", "f4"])
def test_a_tensor_is_an_image_of_its_shape(tmp_path, build, images, encoding):
    data = write_tensors(tmp_path / "data", images, encoding)
    flags = ["--source=tfrecord", "--image_encoding=png", f"--channels={1 if images.ndim == 3 else 3}"]
    flags += ["--pixels=float32:0..1"] if images.dtype.kind == "f" else []
    dataset = open_dataset(build(tmp_path / "out", f"--input={data}", *flags))
    pixels = (images * 255 if images.dtype.kind == "f" else images).round().astype(np.uint8)
    assert {np.asarray(one["image"]).tobytes() for one in dataset["train"]} == {one.tobytes() for one in pixels}
    assert dataset.class_names == ("a", "b", "c")


def test_a_compressed_tensor_is_refused(tmp_path, convert):
    data = write_tensors(tmp_path / "data", COLORS, "zlib")
    ran = convert(f"--input={data}", f"--output={tmp_path / 'out'}", "--source=tfrecord")
    ran.refused("missing_pixel_size", "input", "pixels")
