"""`load`: its arguments as people write them, batches, what Keras and several readers need, and how it fails."""

from __future__ import annotations

import dataclasses
import functools
import random
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from beam_tfrecords import open_dataset
from tests import tensorflow as tf
from tests.each import each
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build):
    """42 photos of different sizes in three shards."""
    folder = tmp_path_factory.mktemp("loading") / "out"
    return build(folder, f"--input={photos}", "--image_size=40", "--num_shards=3")


def names(examples) -> list[bytes]:
    return [example["filename"] for example in examples.as_numpy_iterator()]


def test_shuffle_true_shuffles_within_a_buffer_of_many_examples(dataset):
    in_order = names(load(dataset, "train", decode=False))
    shuffled = names(load(dataset, "train", decode=False, shuffle=True, seed=1))
    assert sorted(shuffled) == sorted(in_order)
    moved = [abs(in_order.index(name) - place) for place, name in enumerate(shuffled)]
    assert max(moved) > 15


@pytest.mark.parametrize("num_readers", [1, 2, 5])
def test_without_shuffle_the_order_is_that_of_the_records(dataset, num_readers):
    readers = [
        load(dataset, "train", decode=False, num_readers=num_readers, reader_index=number)
        for number in range(num_readers)
    ]
    read = [name for reader in readers for name in names(reader)]
    assert [name.decode() for name in read] == [
        example["filename"] for example in open_dataset(dataset).records("train")[: len(read)]
    ]


def test_a_seed_gives_the_same_shuffle_every_time(dataset):
    options = {"decode": False, "shuffle": True, "seed": 1}
    assert names(load(dataset, "train", **options)) == names(load(dataset, "train", **options))


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(200))
def test_a_checkpoint_of_an_iterator_goes_on_with_the_same_batches(dataset, tmp_path, monkeypatch, number):
    chance = random.Random(number)
    shuffles = {"shuffle": chance.choice([True, 1, 7, 20]), "seed": chance.randrange(3)}
    options = chance.choice([{}, shuffles, {**shuffles, "num_readers": 2, "reader_index": 1}])
    options |= {"batch_size": chance.randint(1, 9), "drop_remainder": chance.random() < 0.5}
    options |= chance.choice([{"decode": False}, {"image_size": 8, "resize_mode": "crop"}])

    def make(cores: int):
        monkeypatch.setattr("os.cpu_count", lambda: cores)
        return load(dataset, "train", **options)

    def rest(iterator) -> list[list[bytes]]:
        return [batch["filename"].numpy().tolist() for batch in iterator]

    examples = make(chance.choice([1, 2, 5]))
    for _ in range(chance.randrange(3)):
        rest(examples)
    iterator, had = iter(examples), chance.randrange(len(examples) + 1)
    for _ in range(had):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "state")
    expected, following = rest(iterator), rest(examples)
    others = make(chance.choice([1, 2, 5]))
    again = iter(others)
    tf.train.Checkpoint(iterator=again).restore(path)
    assert rest(again) == expected
    assert len(expected) == len(examples) - had
    # The epoch after it, too.
    assert rest(others) == following


def test_a_path_object_names_a_dataset(dataset):
    assert open_dataset(dataset).path == str(dataset)
    assert len(names(load(dataset, "train", decode=False))) == 42


def test_a_dataset_is_loaded_as_its_folder_is(dataset):
    opened = open_dataset(dataset)
    assert names(load(opened, "train")) == names(load(dataset, "train", decode=False))
    for given in (opened["train"], [dataset], load(dataset, "train")):
        with pytest.raises((TypeError, ValueError), match="split"):
            load(given, "train")


def test_one_number_is_the_size_of_both_sides(dataset):
    (batch,) = load(dataset, "train", image_size=64, resize_mode="crop", batch_size=42)
    assert batch["image"].shape == (42, 64, 64, 3)


def test_nobody_waits_for_autotune_at_the_end_of_an_epoch(dataset):
    assert load(dataset, "train").options().autotune.enabled is False


@pytest.mark.parametrize(
    ("options", "expected"), [({}, 42), ({"batch_size": 40}, 2), ({"batch_size": 40, "drop_remainder": True}, 1)]
)
def test_the_number_of_examples_or_batches_is_known_before_reading(dataset, options, expected):
    examples = load(dataset, "train", image_size=8, resize_mode="crop", shuffle=True, **options)
    assert examples.cardinality().numpy() == expected


def test_as_supervised_gives_pairs_of_image_and_label(dataset):
    image, label = next(
        iter(load(dataset, "train", image_size=8, resize_mode="crop", batch_size=4, as_supervised=True))
    )
    first = next(iter(load(dataset, "train", image_size=8, resize_mode="crop", batch_size=4)))
    assert image.shape == (4, 8, 8, 3)
    assert label.numpy().tolist() == first["label"].numpy().tolist()


def test_as_supervised_without_a_label_names_the_features(tmp_path, photos, build):
    (tmp_path / "spec.yaml").write_text("layout: {picture: image.encoded}")
    path = build(tmp_path / "out", f"--spec={tmp_path / 'spec.yaml'}", f"--input={photos}", "--image_size=8")
    with pytest.raises(ValueError, match=r"expected an image and a label .*; found picture"):
        load(path, "train", as_supervised=True)


@pytest.mark.nightly
def test_keras_trains_on_what_load_gives(dataset):
    pairs = load(dataset, "train", image_size=8, resize_mode="crop", batch_size=16, as_supervised=True)
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(7)])
    model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(pairs.map(lambda image, label: (image / 255, label)), epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


@pytest.mark.parametrize("num_readers", [5, *(pytest.param(count, marks=pytest.mark.nightly) for count in (2, 4, 42))])
def test_every_reader_gets_the_same_number_of_examples_and_none_twice(dataset, num_readers):
    in_order = names(load(dataset, "train", decode=False))
    parts = [
        load(dataset, "train", decode=False, num_readers=num_readers, reader_index=index)
        for index in range(num_readers)
    ]
    assert {part.cardinality().numpy() for part in parts} == {42 // num_readers}
    read = [name for part in parts for name in names(part)]
    assert len(read) == len(set(read)) == 42 // num_readers * num_readers
    assert set(read) <= set(in_order)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_readers": 2, "reader_index": 2}, "reader_index=2: expected 0 or more, and less than num_readers=2"),
        ({"num_readers": 43}, "num_readers=43: there are 42 records"),
    ],
)
def test_a_reader_without_a_share_is_refused(dataset, options, message):
    with pytest.raises(ValueError, match=message):
        load(dataset, "train", **options)


@pytest.fixture(scope="module")
def several_labels(tmp_path_factory, photos, build):
    """Six photos with one, two, three or no classes, in a seventh none."""
    folder = tmp_path_factory.mktemp("several")
    paths = sorted(photos.glob("*/*"))[:6]
    labels = ["cat|dog", "dog", "cat|dog|red", "red", "dog|red", "cat"]
    rows = [f"{path},{label}" for path, label in zip(paths, labels, strict=True)]
    (folder / "table.csv").write_text("\n".join(["image,label", *rows]))
    flags = ["--label_separator=|", "--allow_outside_root", "--image_size=16", "--resize_mode=exact"]
    return build(folder / "out", f"--input={folder / 'table.csv'}", *flags)


@pytest.mark.parametrize("batch_size", [1, 4, 6])
def test_several_labels_are_ragged_in_a_batch(several_labels, batch_size):
    singles = [example["labels"].tolist() for example in load(several_labels, "train").as_numpy_iterator()]
    batches = list(load(several_labels, "train", batch_size=batch_size))
    assert [row for batch in batches for row in batch["labels"].to_list()] == singles
    assert batches[0]["image"].shape == (batch_size, 16, 16, 3)


def test_multi_hot_gives_zeros_and_ones(several_labels):
    singles = [example["labels"].tolist() for example in load(several_labels, "train").as_numpy_iterator()]
    (batch,) = load(several_labels, "train", batch_size=6, multi_hot=True)
    assert batch["labels"].dtype == tf.float32
    expected = [[float(index in labels) for index in range(3)] for labels in singles]
    assert batch["labels"].numpy().tolist() == expected
    ((_, labels),) = load(several_labels, "train", batch_size=6, multi_hot=True, as_supervised=True)
    assert labels.numpy().tolist() == expected


def test_multi_hot_of_single_labels_is_refused(dataset):
    with pytest.raises(ValueError, match=r"multi_hot=True: expected .* labels\.index"):
        load(dataset, "train", multi_hot=True)


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"batch_size": -1}, {"image_size": 0}, {"image_size": (0, 5)}, {"image_size": (5,)}]
)
def test_sizes_below_one_are_refused(dataset, options):
    ((name, _),) = options.items()
    with pytest.raises(ValueError, match=f"{name}=.*: expected "):
        load(dataset, "train", **options)


def test_a_dataset_says_what_it_is_in_three_lines(dataset):
    opened = open_dataset(dataset)
    lines = repr(opened).splitlines()
    assert lines[0] == f"Dataset({str(dataset)!r})"
    assert lines[1] == "  42 records in 3 shards: train 42"
    assert lines[2] == (
        "  features: filename, image, label; 7 classes: building, cat, coffee, flower, person, rocket, space"
    )
    assert (opened.splits, opened.class_names[0]) == ({"train": 42}, "building")


def test_a_dataset_verifies_itself(several_labels, tmp_path):
    copy = shutil.copytree(several_labels, tmp_path / "copy")
    assert open_dataset(copy).verify() == []
    (shard,) = copy.glob("*.tfrecord-*")
    shard.write_bytes(shard.read_bytes()[:-1])
    assert any(shard.name in finding for finding in open_dataset(copy).verify())


def test_without_tensorflow_the_message_names_the_extra():
    code = "import sys; sys.modules['tensorflow'] = None; from beam_tfrecords import load"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1].endswith(
        "ImportError: reading with tf.data needs TensorFlow: pip install '.[tensorflow]' in the clone"
    )


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_after_the_dataset_was_replaced_fails_with_one_line(tmp_path, photos, build, shuffle):
    flags = [f"--input={photos}", "--image_size=16", "--num_shards=3"]
    examples = load(build(tmp_path / "out", *flags), "train", decode=False, shuffle=shuffle)
    assert len(names(examples)) == 42
    build(tmp_path / "out", *flags, "--seed=7", "--overwrite")
    with pytest.raises(tf.errors.InvalidArgumentError, match="the dataset was replaced"):
        names(examples)


def test_a_shard_of_another_size_is_not_read(dataset, tmp_path):
    shutil.copytree(dataset, tmp_path / "out")
    examples = load(tmp_path / "out", "train")
    first, second, _ = sorted((tmp_path / "out").glob("*.tfrecord-*"))
    shutil.copy(second, first)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not the file that was published"):
        names(examples)


def test_compressed_shards_are_read_from_a_disk_only(tmp_path, photos, build):
    packed = open_dataset(build(tmp_path / "out", f"--input={photos}", "--image_size=8", "--compression=gzip"))
    assert len(names(load(packed, "train"))) == packed.num_records
    with refuses("compressed_shards", says=["cannot be read from a bucket; copy the folder to a disk"]):
        load(dataclasses.replace(packed, path="s3://bucket/out"), "train")


def test_pixels_are_those_of_records_and_of_pillow(tmp_path, photos, build):
    """Other readers of JPEGs decode as Pillow does."""
    for name, flag in {"resized": "--image_size=64", "kept": "--image_encoding=keep"}.items():
        dataset = build(tmp_path / name, f"--input={photos}", flag)
        loaded = load(dataset, "train").as_numpy_iterator()
        for one, two in zip(loaded, open_dataset(tmp_path / name)["train"], strict=True):
            np.testing.assert_array_equal(one["image"], two["image"])


@each(
    "arguments, error, message",
    [
        ({"shuffle": -1}, ValueError, "shuffle=-1"),
        ({"batch_size": "32"}, TypeError, "batch_size='32': found str"),
        ({"seed": 1.5}, TypeError, "seed=1.5"),
        ({"num_readers": None}, TypeError, "num_readers=None"),
        ({"num_objects": "3"}, TypeError, "num_objects='3'"),
        ({"batch_size": True}, TypeError, "batch_size=True: found bool"),
        ({"num_readers": True}, TypeError, "num_readers=True"),
        ({"shuffle": 1.5}, TypeError, "shuffle=1.5"),
        ({"decode": "no"}, TypeError, "decode='no': found str; expected True or False"),
        ({"as_supervised": 1}, TypeError, "as_supervised=1: found int"),
        ({"multi_hot": None}, TypeError, "multi_hot=None"),
        ({"drop_remainder": "no", "batch_size": 2}, TypeError, "drop_remainder='no'"),
        ({"transform": 3}, TypeError, "transform=3: found int"),
        ({"drop_remainder": True}, ValueError, "expected a batch_size with it"),
        ({"decode": False, "image_size": 8, "resize_mode": "pad"}, ValueError, "image_size=8: no image is decoded"),
    ],
)
def test_arguments_are_checked_before_anything_is_read(dataset, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        load(dataset, "train", **arguments)


def test_without_a_split_the_splits_are_named(dataset):
    with refuses("missing_split", says=["found no split", "train", "'train[:80%]'"]):
        load(dataset)


def test_images_of_different_sizes_are_not_batched(dataset):
    with pytest.raises(ValueError, match="image_size="):
        load(dataset, "train", batch_size=4)


def test_batches_of_resized_of_transformed_and_of_encoded_images(dataset):
    batch = next(iter(load(dataset, "train", batch_size=4, image_size=(20, 30), resize_mode="crop")))
    assert batch["image"].shape == (4, 20, 30, 3)
    batch = next(iter(load(dataset, "train", batch_size=4, transform=lambda example: example["image"][:32, :32])))
    assert batch.shape == (4, 32, 32, 3)
    batch = next(iter(load(dataset, "train", batch_size=4, decode=False)))
    assert batch["image"].shape == (4,)


class Renumber:
    """A transform that is an object, with a condition that depends on a tensor."""

    def __call__(self, example):
        if example["label"] == 0:
            example["label"] += 100
        return example


@pytest.mark.parametrize("transform", [Renumber(), Renumber().__call__, functools.partial(Renumber.__call__, None)])
def test_a_transform_may_have_conditions_that_depend_on_tensors(dataset, transform):
    given = [int(example["label"]) for example in load(dataset, "train", decode=False)]
    found = [int(example["label"]) for example in load(dataset, "train", decode=False, transform=transform)]
    assert 0 in given
    assert found == [label or 100 for label in given]


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", ["png", "webp", "raw"])
def test_every_encoding_of_the_same_pixels_reads_alike(tmp_path, photos, build, encoding):
    flags = [f"--input={photos}", "--image_size=96x128", "--resize_mode=exact", "--codec=exact", "--jpeg_quality=100"]
    raw = build(tmp_path / "raw", *flags, "--image_encoding=raw")
    other = build(tmp_path / "other", *flags, f"--image_encoding={encoding}")
    pairs = zip(load(str(raw), "train").as_numpy_iterator(), load(str(other), "train").as_numpy_iterator(), strict=True)
    for one, two in pairs:
        assert one["filename"] == two["filename"]
        difference = np.abs(one["image"].astype(int) - two["image"])
        assert difference.mean() < (5 if encoding == "webp" else 0.001)


def test_gzip_and_raw_images_of_different_sizes_read(tmp_path, photos, build):
    path = build(tmp_path / "out", f"--input={photos}", "--image_size=24", "--layout=raw", "--compression=gzip")
    examples = list(load(str(path), "train").as_numpy_iterator())
    assert len(examples) == 42
    for example in examples:
        assert example["image"].shape == (example["height"], example["width"], example["depth"])
