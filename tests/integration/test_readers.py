"""One dataset, the same records: whoever reads it, in the same order, with the same pixels, labels, boxes and masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import grain
import mlcroissant
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.testing.util import assert_that, equal_to
from PIL import Image
from torch.utils.data import DataLoader

from beam_tfrecords import load, mix, open_dataset
from beam_tfrecords.grain import RecordSource
from beam_tfrecords.torch import RecordDataset, RecordStream
from tests.annotated_inputs import save_pictures, write_coco
from tests.framing import Example, records_of
from tests.integration.tfrecord_package import read_shards

pytestmark = pytest.mark.nightly

BATCH = 4


def with_grain(source: Any) -> Iterator[Any]:
    sampler = grain.samplers.IndexSampler(
        len(source), shard_options=grain.sharding.NoSharding(), shuffle=False, num_epochs=1, seed=0
    )
    return iter(grain.DataLoader(data_source=source, sampler=sampler, operations=[], worker_count=2))


def with_torch(dataset: Any, workers: int = 2, **options: Any) -> Iterator[Any]:
    for batch in DataLoader(dataset, BATCH, num_workers=workers, collate_fn=list, **options):
        yield from batch


# What of records gives their examples in order.
READERS: dict[str, Callable[[Any], Iterator[Any]]] = {
    "tf.data": lambda records: load(records).as_numpy_iterator(),
    "torch": lambda records: with_torch(records, multiprocessing_context="spawn"),
    "torch by number": lambda records: with_torch(RecordDataset(records)),
    "torch in this process": lambda records: with_torch(RecordDataset(records), workers=0),
    "torch as a stream": lambda records: with_torch(RecordStream(records, batch_size=BATCH)),
    "grain": with_grain,
    "grain by its adapter": lambda records: with_grain(RecordSource(records)),
}
KINDS: dict[str, Callable[[Any], Any]] = {
    "all": lambda records: records,
    "filtered": lambda records: records.filter(label=["cat", "space"]),
    "in part": lambda records: records[::-2],
    "chosen": lambda records: records[[3, 3, 0]],
    "resized": lambda records: records.resized((20, 24), "crop"),
    "mixed": lambda records: mix([(records.filter(label="cat"), 0.5), (records, 0.5)], seed=1),
    "mixed twice": lambda records: mix([(mix([(records[:5], 1), (records, 1)]), 1), (records[2:9], 2)]),
}


def photos_of(folder: Path, photos: Path, *flags: str) -> list[str]:
    return [f"--input={photos}", *flags]


def boxes_of(folder: Path, photos: Path, *flags: str) -> list[str]:
    save_pictures(folder / "pictures")
    coco = write_coco(folder / "instances.json")
    return [f"--input={coco}", f"--image_root={folder / 'pictures'}", *flags]


def masks_of(folder: Path, photos: Path, *flags: str) -> list[str]:
    for number, name in enumerate("abc"):
        for kind, pixels in (("images", np.full((30, 40, 3), number)), ("masks", np.full((30, 40), 255 - number))):
            (folder / kind).mkdir(exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / kind / f"{name}.png")
    return [f"--input={folder / 'images'}", f"--mask_root={folder / 'masks'}", "--layout=segmentation", *flags]


_FIXED = ("--image_size=24x32", "--resize_mode=exact")
# Name -> what writes the input, and flags.
DATASETS: dict[str, tuple[Callable[..., list[str]], tuple[str, ...]]] = {
    "jpeg": (photos_of, ("--image_size=32", "--resize_mode=crop", "--num_shards=3")),
    "of all sizes": (photos_of, ("--image_size=40",)),
    "gray": (photos_of, (*_FIXED, "--channels=1")),
    "png with alpha": (photos_of, (*_FIXED, "--channels=4", "--image_encoding=png")),
    "png of 16 bits": (photos_of, (*_FIXED, "--image_encoding=png", "--bit_depth=16", "--channels=1")),
    "raw": (photos_of, ("--image_size=8", "--resize_mode=crop", "--image_encoding=raw")),
    "kept": (photos_of, ("--image_encoding=keep", "--limit=6")),
    "boxes": (boxes_of, ("--layout=detection",)),
    "boxes of tfds": (boxes_of, ("--layout=tfds", "--image_size=20")),
    "masks": (masks_of, ()),
    "masks of objects": (boxes_of, ("--layout=detection_masks", "--image_size=20x30", "--resize_mode=exact")),
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build) -> Callable[[str], Any]:
    """Builds a dataset by its name, once."""
    made: dict[str, Path] = {}

    def open_made(name: str) -> Any:
        if name not in made:
            folder = tmp_path_factory.mktemp("readers")
            write, flags = DATASETS[name]
            made[name] = build(folder / "out", *write(folder, photos, *flags))
        return open_dataset(made[name])

    return open_made


def check_same(found: Iterator[Any], expected: Any) -> None:
    """Compares examples; PyTorch's images have their channels first."""
    count = 0
    for one, (theirs, ours) in enumerate(zip(found, expected, strict=True)):
        assert theirs.keys() == ours.keys()
        for name, value in ours.items():
            other = theirs[name]
            if isinstance(value, str):
                assert getattr(other, "decode", lambda other=other: other)() == value, (one, name)
            elif isinstance(value, list):
                assert [getattr(part, "decode", lambda part=part: part)() for part in list(other)] == value, (one, name)
            else:
                other, value = np.asarray(other), np.asarray(value)
                other = other.transpose(1, 2, 0) if other.ndim == 3 and other.shape != value.shape else other
                np.testing.assert_array_equal(other, value, err_msg=f"{one} {name}")
        count += 1
    assert count > 1


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", DATASETS)
def test_every_reader_gives_the_examples_of_the_records(dataset, name, reader):
    records = dataset(name)["train"]
    check_same(READERS[reader](records), records)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_records_of_any_kind_are_read_as_they_are(dataset, kind, reader):
    records = KINDS[kind](dataset("jpeg")["train"])
    check_same(READERS[reader](records), records)


@pytest.mark.parametrize("name", ["jpeg", "gray", "png with alpha", "png of 16 bits", "masks"])
def test_pairs_have_the_pixels_of_the_records(dataset, name):
    records = dataset(name)["train"]
    target = "mask" if name == "masks" else "label"
    found = {
        "tf.data": load(records, as_supervised=True).as_numpy_iterator(),
        "grain": with_grain(RecordSource(records, as_supervised=True)),
        "torch": with_torch(RecordDataset(records, as_supervised=True)),
        "stream": with_torch(RecordStream(records, batch_size=BATCH, as_supervised=True)),
    }
    for reader, pairs in found.items():
        (
            check_same(
                ({"image": image, target: np.squeeze(label)} for image, label in pairs),
                [{"image": one["image"], target: np.squeeze(one[target])} for one in records],
            ),
            reader,
        )


@pytest.mark.parametrize("read", [load, RecordDataset, RecordStream, RecordSource], ids=lambda read: read.__name__)
def test_a_size_of_the_reader_is_that_of_the_records(dataset, read):
    records, size = dataset("of all sizes")["train"], {"image_size": (24, 32), "resize_mode": "crop"}
    examples = read(records, **size)
    examples = examples.as_numpy_iterator() if read is load else (examples[n] for n in range(len(records)))
    if read is RecordStream:
        examples = iter(read(records, **size))
    check_same(examples, records.resized((24, 32), "crop"))


def test_images_of_different_sizes_are_not_batched_and_the_message_names_the_setting(dataset):
    records = dataset("of all sizes")["train"]
    batches: list[Callable[[], Any]] = [
        lambda: load(records, batch_size=8),
        *(
            lambda make=make, workers=workers: next(iter(DataLoader(make(records), batch_size=8, num_workers=workers)))
            for make in (lambda records: records, RecordDataset, RecordStream)
            for workers in (0, 1)
        ),
        lambda: grain.MapDataset.source(source := RecordSource(records)).batch(8, batch_fn=source.collate)[0],
    ]
    for batch in batches:
        with pytest.raises(ValueError, match=r"images of different sizes cannot be batched.*image_size=224"):
            batch()


def test_lists_of_different_lengths_are_lists_in_a_batch(dataset):
    records = dataset("boxes")["train"].resized(32, "crop")
    source = RecordSource(records)
    more = RecordDataset(records, transform=lambda example: {**example, "more": 1})
    batches = [
        next(iter(DataLoader(records, batch_size=4))),
        next(iter(DataLoader(more, batch_size=4))),
        grain.MapDataset.source(source).batch(4, batch_fn=source.collate)[0],
    ]
    for batch in batches:
        for number, example in enumerate(records[:4]):
            for name in ("image/object/bbox/xmin", "image/object/class/text", "image/filename"):
                np.testing.assert_array_equal(batch[name][number], example[name])
    assert [batch["image"].shape for batch in batches] == [(4, 32, 32, 3), (4, 3, 32, 32), (4, 32, 32, 3)]
    # Ragged in every batch, whatever its examples have.
    (first, *_) = DataLoader(records, batch_size=1)
    assert isinstance(first["image/object/bbox/xmin"], list)


# Readers that others have written

SPLITS = ("train", "test")


@pytest.fixture(scope="module", params=["none", "gzip"])
def written(request, tmp_path_factory, photos, build) -> tuple[str, Path, dict[str, list[tuple[bytes, int]]]]:
    """The compression, a dataset, and by split the file names and labels as a reader of the tests has them."""
    flags = ("--name=photos", "--image_size=32", "--num_shards=2", "--splits=train=0.8,test=0.2")
    out = tmp_path_factory.mktemp("others") / request.param
    build(out, f"--input={photos}", *flags, f"--compression={request.param}")
    dataset, expected = open_dataset(out), {}
    labels = {path.name: dataset.class_names.index(path.parent.name) for path in photos.rglob("*.jpg")}
    for split in SPLITS:
        files = sorted(out.glob(f"photos-{split}.tfrecord-*"))
        features = [Example.FromString(data).features.feature for file in files for data in records_of(file)]
        names = [one["filename"].bytes_list.value[0] for one in features]
        expected[split] = [(name, one["label"].int64_list.value[0]) for name, one in zip(names, features, strict=True)]
        assert all(labels[name.decode()] == label for name, label in expected[split])
    assert {split: len(found) for split, found in expected.items()} == dataset.splits
    return request.param, out, expected


def by_tensorflow(out: Path, split: str, compression: str) -> list[tuple[bytes, int]]:
    features = {"filename": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    files = sorted(map(str, out.glob(f"photos-{split}.tfrecord-*")))
    records = tf.data.TFRecordDataset(files, compression_type={"none": "", "gzip": "GZIP"}[compression])
    examples = records.map(lambda record: tf.io.parse_single_example(record, features)).as_numpy_iterator()
    return [(one["filename"], one["label"]) for one in examples]


def by_tfds(out: Path, split: str, compression: str) -> list[tuple[bytes, int]]:
    if compression == "gzip":
        pytest.skip("TFDS reads no GZIP shards")
    config = tfds.ReadConfig(interleave_cycle_length=1)
    examples = tfds.builder_from_directory(str(out)).as_dataset(split=split, read_config=config).as_numpy_iterator()
    return [(one["filename"], one["label"]) for one in examples]


def by_the_tfrecord_package(out: Path, split: str, compression: str) -> list[tuple[bytes, int]]:
    return read_shards(sorted(out.glob(f"photos-{split}.tfrecord-*")), compression=compression)


def by_croissant(out: Path, split: str, compression: str) -> list[tuple[bytes, int]]:
    """By the places of records in the index, which croissant.json leads to."""
    if compression == "gzip":
        pytest.skip("records have no places in GZIP shards")
    described, dataset = mlcroissant.Dataset(jsonld=str(out / "croissant.json")), open_dataset(out)
    splits = {row["splits/name"]: row["splits/records"] for row in described.records("splits")}
    classes = {row["classes/index"]: row["classes/name"] for row in described.records("classes")}
    assert (splits, classes) == (dataset.splits, dict(enumerate(dataset.class_names)))
    found = []
    for row in described.records("records"):
        values = {name.partition("/")[2]: value for name, value in row.items()}
        if values["split"].decode() == split:
            data = (out / f"photos-{split}.tfrecord-{values['shard'].decode()}").read_bytes()
            start = values["offset"] + 12
            feature = Example.FromString(data[start : start + values["length"] - 16]).features.feature
            (label,) = feature["label"].int64_list.value
            assert classes[label] == values["label"].decode()
            found.append((values["shard"], values["offset"], feature["filename"].bytes_list.value[0], label))
    return [(name, label) for _, _, name, label in sorted(found)]


@pytest.mark.parametrize("read", [by_tensorflow, by_tfds, by_the_tfrecord_package, by_croissant])
@pytest.mark.parametrize("split", SPLITS)
def test_readers_of_others_read_the_same_records_in_the_same_order(written, split, read):
    compression, out, expected = written
    assert read(out, split, compression) == expected[split]


@pytest.mark.parametrize("split", SPLITS)
def test_beam_reads_the_same_records(written, split):
    compression, out, expected = written

    def parse(record: bytes) -> tuple[bytes, int]:
        feature = Example.FromString(record).features.feature
        return feature["filename"].bytes_list.value[0], feature["label"].int64_list.value[0]

    kind = {"none": CompressionTypes.UNCOMPRESSED, "gzip": CompressionTypes.GZIP}[compression]
    with beam.Pipeline("FnApiRunner") as pipeline:
        read = beam.io.ReadFromTFRecord(f"{out}/photos-{split}.tfrecord-*", compression_type=kind)
        assert_that(pipeline | read | beam.Map(parse), equal_to(expected[split]))
