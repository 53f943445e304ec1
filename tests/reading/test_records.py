"""Random access to records, against TensorFlow's own reading of the same files."""

from __future__ import annotations

import collections
import dataclasses
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords import BuildError, mix, open_dataset
from tests import tensorflow as tf
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build):
    folder = tmp_path_factory.mktemp("records") / "out"
    flags = ["--image_size=40", "--num_shards=3", "--splits=train=0.75,test=0.25"]
    return open_dataset(build(folder, f"--input={photos}", *flags))


@pytest.fixture(scope="module")
def records(dataset):
    return dataset.records("train")


def test_every_record_is_what_tensorflow_reads(dataset, records):
    theirs = {example["filename"].decode(): example for example in load(dataset.path, "train").as_numpy_iterator()}
    assert len(records) == len(theirs)
    for ours in records:
        expected = theirs.pop(ours["filename"])
        assert ours["label"] == expected["label"]
        assert ours["image"].shape == expected["image"].shape
        # TensorFlow takes a faster and less exact inverse DCT.
        assert np.abs(ours["image"].astype(int) - expected["image"]).mean() < 3


@pytest.mark.parametrize("encoding", ["png", "webp", "raw"])
def test_other_encodings_are_decoded(tmp_path, photos, build, encoding):
    flags = ["--image_size=24x32", "--resize_mode=exact", f"--image_encoding={encoding}"]
    built = open_dataset(build(tmp_path, f"--input={photos}", *flags))
    theirs = load(built.path, "train", decode=encoding != "webp").as_numpy_iterator()
    for ours, expected in zip(built.records("train"), theirs, strict=True):
        assert ours["image"].shape == (24, 32, 3)
        if encoding != "webp":
            np.testing.assert_array_equal(ours["image"], expected["image"])


@pytest.mark.parametrize("channels", ["1", "3", "keep"])
def test_kept_files_of_16_bits_are_what_tensorflow_reads(tmp_path, build, channels):
    (tmp_path / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 65536, (30, 50), dtype=np.uint16)
    Image.fromarray(pixels).save(tmp_path / "photos" / "grey.png")
    flags = ["--layout=image", "--image_encoding=keep", f"--channels={channels}"]
    built = open_dataset(build(tmp_path / "out", f"--input={tmp_path / 'photos'}", *flags))
    (theirs,) = load(built.path, "train").as_numpy_iterator()
    np.testing.assert_array_equal(built.records("train")[0]["image"], theirs["image"])


def test_bytes_are_the_serialized_examples(dataset):
    files = sorted(tf.io.gfile.glob(f"{dataset.path}/*-train.tfrecord-*"))
    assert list(dataset.records("train", form="bytes")) == [one.numpy() for one in tf.data.TFRecordDataset(files)]


def test_features_leave_images_encoded(dataset, records):
    first = dataset.records("train", form="features")[0]
    assert first["image"].startswith(b"\xff\xd8")
    assert first["filename"].decode() == records[0]["filename"]


def names(records) -> list[str]:
    return [example["filename"] for example in records]


def test_lists_of_numbers_and_truth_values_choose_records(dataset, records):
    every = names(records)
    mixed = mix([(records, 1.0), (dataset.records("test"), 1.0)], seed=2)
    for chosen_of in (records, records[5:], records.filter(label=["cat", "space"]), mixed):
        every = names(chosen_of)
        for numbers in ([3, 1, 1], (0, -1), range(2), np.array([2, 0]), []):
            assert names(chosen_of[numbers]) == [every[number] for number in numbers]
            assert names(chosen_of[numbers][:1]) == [every[number] for number in numbers][:1]
        is_first = np.arange(len(every)) < 2
        assert names(chosen_of[is_first]) == names(chosen_of[is_first.tolist()]) == every[:2]
        for wrong, error in (([0, 99], IndexError), ([0.5], TypeError), ([[1]], TypeError), ([True], TypeError)):
            with pytest.raises(error):
                chosen_of[wrong]


def test_a_feature_of_all_records_needs_no_image(dataset, records):
    labels = records["label"]
    assert labels.dtype == np.int64
    assert labels.tolist() == [example["label"] for example in records]
    assert records.filter(label="cat")["filename"] == names(records.filter(label="cat"))
    counts = collections.Counter(dataset.int2str(label) for label in labels)
    assert dataset.class_counts["train"] == counts
    mixed = mix([(records, 1.0), (dataset.records("test"), 1.0)], seed=2)
    assert mixed["label"].tolist() == [example["label"] for example in mixed]


def test_a_dataset_shows_a_split_whose_samples_were_all_rejected(dataset):
    splits = dataset.manifest["splits"]
    splits = {**splits, "rejected": {**splits["train"], "records": 0, "shards": 0}}
    stored = dataclasses.replace(dataset, manifest={**dataset.manifest, "splits": splits})
    assert "rejected 0" in repr(stored)


def test_numbers_slices_and_several_at_once(records):
    every = names(records)
    assert records[-1]["filename"] == every[-1]
    assert records[np.int64(3)]["filename"] == every[3]
    assert names(records[5:20:3]) == every[5:20:3]
    assert names(records[::-1][2:4]) == every[::-1][2:4]
    assert names(records.__getitems__([7, 0, 7])) == [every[7], every[0], every[7]]
    assert names(records._getitems([1, -1])) == [every[1], every[-1]]
    for number in (len(every), -len(every) - 1):
        with pytest.raises(IndexError, match=f"record {number}"):
            records[number]


def test_the_images_of_a_batch_are_rows_of_one_array(tmp_path, photos, build, dataset, records):
    cut = open_dataset(build(tmp_path, f"--input={photos}", "--image_size=40", "--resize_mode=crop")).records("train")
    numbers = [7, 0, 7, -1]
    for one in (cut, records):
        np.testing.assert_equal(one.read_batch(numbers), one.__getitems__(numbers))
    batch = cut.read_batch(numbers)
    assert {*np.diff([example["image"].ctypes.data for example in batch])} == {40 * 40 * 3}
    # An example that is kept keeps no others.
    assert all(example["image"].base is None for example in cut.__getitems__(numbers))
    serialized = dataset.records("train", form="bytes")
    assert serialized.read_batch(numbers) == serialized.__getitems__(numbers)


def test_a_pickled_copy_reads_the_same_in_another_process(records):
    code = "import pickle, sys; r = pickle.load(sys.stdin.buffer); print(len(r), r[3]['filename'])"
    ran = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(records[2:]), capture_output=True, check=True)
    assert ran.stdout.decode().split() == [str(len(records) - 2), records[5]["filename"]]


def test_many_threads_read_the_same_records(records):
    with ThreadPoolExecutor(8) as threads:
        assert names(threads.map(records.__getitem__, range(len(records)))) == names(records)


def test_filters_by_columns_of_the_index(dataset, records):
    cats = dataset.class_names.index("cat")
    kept = records.filter(label="cat")
    assert {example["label"] for example in kept} == {cats}
    assert len(kept) == sum(example["label"] == cats for example in records)
    two = records.filter(label=["cat", "rocket"]).filter(pc.field("height") == 40)
    expected = [
        example["filename"]
        for example in records
        if dataset.class_names[example["label"]] in ("cat", "rocket") and example["image"].shape[0] == 40
    ]
    assert names(two) == expected
    assert len(records.filter(label="no such class")) == 0
    assert names(records.filter("label in ('cat', 'rocket') and height = 40")) == names(two)
    with refuses("invalid_condition", says=["'colour'", "label"]):
        records.filter(colour="red")


def test_without_a_split_the_records_are_those_of_all(dataset, records):
    every = dataset.records()
    assert names(every) == names(dataset.records("test")) + names(records)
    assert "test, train" in repr(every)
    assert names(every.filter(split="train")) == names(records)
    assert names(every[:-3].filter("split = 'train' and label = 'cat'")) == names(records[:-3].filter(label="cat"))


def test_a_filter_reads_no_record(dataset, tmp_path):
    copy = open_dataset(shutil.copytree(dataset.path, tmp_path / "copy"))
    for shard in (tmp_path / "copy").glob("*.tfrecord-*"):
        shard.unlink()
    assert len(copy.records("train").filter(label="cat")) == len(dataset.records("train").filter(label="cat"))


def test_a_filter_reads_the_indices_of_shards_with_records_that_are_left(dataset, records, tmp_path):
    copy = open_dataset(shutil.copytree(dataset.path, tmp_path / "copy"))
    first, *others = copy.split_shards("train")
    left = copy.records("train")[: first.records]
    for shard in others:
        (tmp_path / "copy" / shard.index).unlink()
    assert len(left.filter(label="cat").filter("height = 40")) == len(
        records[: first.records].filter("label = 'cat' and height = 40")
    )
    assert len(left.filter(label="no such class").filter(label="cat")) == 0


def test_a_flipped_bit_is_found_if_asked(dataset, tmp_path):
    copy = open_dataset(shutil.copytree(dataset.path, tmp_path / "copy"))
    shard = tmp_path / "copy" / copy.split_shards("train")[0].file
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    with pytest.raises(BuildError, match="the record at byte 0 is damaged"):
        copy.records("train", verify=True)[0]
    copy.records("train", form="bytes")[0]
    shard.write_bytes(data[:50])
    with pytest.raises(BuildError, match="ends before byte"):
        copy.records("train")[0]


def _damage(path, begin: int, end: int) -> None:
    data = bytearray(path.read_bytes())
    data[begin:end] = bytes(byte ^ 0xFF for byte in data[begin:end])
    path.write_bytes(data)


READS = {
    "record": lambda records, number: records[number],
    "batch": lambda records, number: records.read_batch(range(number + 1)),
    "planes": lambda records, number: records.in_planes(["image"]).read_batch(range(number + 1)),
    "resized": lambda records, number: records.resized(20, "crop")[number],
    "iteration": lambda records, _: list(records),
    "mixture": lambda records, _: list(mix([(records, 1)])),
}


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
@pytest.mark.parametrize("part", ["image", "all"])
def test_a_damaged_record_is_named_with_its_shard(dataset, tmp_path, read, part):
    copy = open_dataset(shutil.copytree(dataset.path, tmp_path / "copy"))
    first, second, *_ = copy.split_shards("train")
    rows = pq.read_table(tmp_path / "copy" / second.index, columns=["offset", "length"]).to_pylist()
    offset, length = rows[1].values()
    data = (tmp_path / "copy" / second.file).read_bytes()
    begin = data.index(b"\xff\xd8\xff", offset) if part == "image" else offset + 12
    _damage(tmp_path / "copy" / second.file, begin, offset + length - 4)
    expected = rf"{re.escape(second.file)}: record 1 at byte {offset:,} is damaged .*verify=True"
    with pytest.raises(BuildError, match=expected):
        read(copy.records("train"), first.records + 1)
    # Those beside it can be read.
    assert copy.records("train")[first.records]["image"].size
    assert len(copy.records("train", form="bytes")[first.records + 1]) == length - 16


@settings(max_examples=10)
@given(share=st.floats(0, 1), flipped=st.integers(1, 255), count=st.integers(1, 200))
def test_no_damage_raises_what_names_no_shard(dataset, share, flipped, count):
    with tempfile.TemporaryDirectory() as folder:
        copy = open_dataset(shutil.copytree(dataset.path, f"{folder}/copy"))
        path = Path(copy.path, copy.split_shards("train")[0].file)
        data = bytearray(path.read_bytes())
        for place in range(int(share * (len(data) - 1)), len(data))[:count]:
            data[place] ^= flipped
        path.write_bytes(data)
        for number in range(len(copy.records("train"))):
            try:
                copy.records("train")[number]
            except BuildError as error:
                assert path.name in str(error)  # noqa: PT017


def test_a_whole_record_that_cannot_be_decoded_is_not_called_damaged(tmp_path, photos, build):
    built = open_dataset(build(tmp_path, f"--input={photos}", "--image_size=40"))
    broken = built.records("train")._with(lambda source: source.changing(images=None))
    with pytest.raises(BuildError, match=r"tfrecord-00000-of-00001: record 2 at byte [\d,]+ cannot be read: "):
        broken[2]


@pytest.mark.parametrize("size", [16, 24], ids=["of the same size", "of another size"])
def test_a_dataset_that_replaces_another_is_not_read_as_that(tmp_path, photos, build, size):
    raw = [f"--input={photos}", "--image_encoding=raw", "--overwrite"]
    out = build(tmp_path / "out", *raw, "--image_size=16", "--resize_mode=pad")
    before, other = open_dataset(out).records("train"), open_dataset(out).records("train")
    first = before[0]
    build(out, *raw, f"--image_size={size}", "--resize_mode=exact")
    after = open_dataset(out).records("train")[0]
    assert not np.array_equal(after["image"], first["image"])
    assert after["image"].shape[0] == size
    # What is open stays what it was; what is not, is not taken for it.
    np.testing.assert_equal(before[0], first)
    with pytest.raises(BuildError, match="was replaced"):
        other[0]
    with pytest.raises(BuildError, match="was replaced"):
        before.filter(label="cat")


def test_what_cannot_be_read_at_random_is_refused(tmp_path, photos, build, dataset):
    compressed = open_dataset(build(tmp_path, f"--input={photos}", "--image_size=8", "--compression=gzip"))
    with refuses("compressed_shards", says=["--compression=none"]):
        compressed.records("train")
    with refuses("unknown_split", says=["'dev'"]):
        dataset.records("dev")
    with pytest.raises(ValueError, match="form='pixel'"):
        dataset.records("train", form="pixel")


def test_reading_imports_neither_tensorflow_nor_beam_nor_what_conditions_need(dataset):
    code = f"""
import sys
from beam_tfrecords import mix, open_dataset
from tests.refusals import refuses
print(len(open_dataset({dataset.path!r}).records("train")[0]["image"]))
assert not {{"tensorflow", "apache_beam", "pyarrow.compute"}} & set(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr == ""
