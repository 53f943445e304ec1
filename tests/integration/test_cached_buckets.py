"""Datasets in buckets that are read with a cache: the same records, once from the store, and never those of another."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

from beam_tfrecords import load, mix, open_dataset, storage
from tests.integration import buckets

pytestmark = pytest.mark.nightly

FLAGS = ("--name=photos", "--image_size=64", "--resize_mode=crop", "--num_shards=3", "--quiet")
PHOTOS = "tests/data/photos"


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def server(request, tmp_path_factory):
    with buckets.services(tmp_path_factory.mktemp("server"), request.param) as servers:
        servers[request.param].scheme = request.param
        yield servers[request.param]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local") / "out"
    buckets.build(f"--input={PHOTOS}", f"--output={folder}", *FLAGS)
    return folder


@pytest.fixture(scope="module")
def dataset(server, local):
    buckets.upload(local, f"{server.scheme}://datasets/out")
    return f"{server.scheme}://datasets/out"


@pytest.fixture
def expected(local):
    return list(open_dataset(local).records("train", form="bytes"))


def requests_for(server, read) -> int:
    """How many requests for shards and indices a function makes."""
    server.requests.clear()
    read()
    return sum("tfrecord" in request or "parquet" in request for request in server.requests)


def test_the_second_epoch_asks_for_nothing(dataset, server, expected, tmp_path):
    def records():
        return open_dataset(dataset, cache=tmp_path / "cache").records("train", form="bytes")

    def read(order) -> None:
        assert records().__getitems__(order) == [expected[number] for number in order]

    shuffled = random.Random(0).sample(range(len(expected)), len(expected))
    # A request for each shard, as it is smaller than a block, and one for its index.
    assert requests_for(server, lambda: read(shuffled)) == 6
    assert requests_for(server, lambda: read(range(len(expected)))) == 0
    assert requests_for(server, lambda: [records()[number] for number in (3, -1)]) == 0
    assert requests_for(server, lambda: list(records())) == 0
    assert requests_for(server, lambda: records().filter(label="cat")) == 0


def test_readers_share_it(dataset, server, local, tmp_path):
    def names(path, **options) -> list[bytes]:
        return [example["filename"] for example in load(path, "train", **options).as_numpy_iterator()]

    cached = {"cache": str(tmp_path / "cache"), "cache_size": "1GB"}
    opened = open_dataset(dataset, **cached)
    assert requests_for(server, lambda: names(opened)) == 6
    assert names(opened) == names(local)
    assert sorted(names(opened, shuffle=True)) == sorted(names(local))
    mixed = mix([(opened["train"], 1), (opened["train"], 2)])
    assert requests_for(server, lambda: [*opened.records("train"), *load(mixed), *mixed]) == 0


@pytest.mark.parametrize("options", [{"shuffle": 9, "seed": 1}, {"num_readers": 2, "reader_index": 1}])
def test_a_checkpoint_goes_on_whatever_is_kept(dataset, tmp_path, options):
    def batches(cache: str | None):
        return iter(load(open_dataset(dataset, cache=cache), "train", batch_size=4, **options))

    def rest(iterator) -> list[list[bytes]]:
        return [batch["filename"].numpy().tolist() for batch in iterator]

    iterator = batches(str(tmp_path / "cache"))
    for _ in range(4):
        next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "state")
    left = rest(iterator)
    for cache in (None, str(tmp_path / "cache"), str(tmp_path / "other")):
        again = batches(cache)
        tf.train.Checkpoint(iterator=again).restore(saved)
        assert rest(again) == left


def test_four_processes_read_each_range_once(dataset, server, tmp_path):
    code = (
        "import sys; from beam_tfrecords import open_dataset\n"
        "records = open_dataset(sys.argv[1], cache=sys.argv[2]).records('train', form='bytes')\n"
        "import hashlib; print(hashlib.sha256(b''.join(records)).hexdigest())"
    )

    def read() -> None:
        command = [sys.executable, "-c", code, dataset, str(tmp_path / "cache")]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        assert len({process.communicate()[0] for process in processes}) == 1
        assert not any(process.returncode for process in processes)

    server.requests.clear()
    read()
    assert sum(".tfrecord" in request and "parquet" not in request for request in server.requests) == 3


@pytest.mark.parametrize("seed", range(5))
def test_damaged_bytes_are_read_again(dataset, expected, tmp_path, seed):
    chance = random.Random(seed)
    records = open_dataset(dataset, cache=tmp_path).records("train", form="bytes")
    assert list(records) == expected
    for path in tmp_path.glob("beam-tfrecords-" + "?" * 32):
        data = bytearray(path.read_bytes())
        for _ in range(chance.randint(1, 5)):
            at = chance.randrange(len(data))
            data[at : at + 10_000] = bytes(len(data[at : at + 10_000]))
        path.write_bytes(data[: chance.choice([len(data), len(data) // 2])])
    again = open_dataset(dataset, cache=tmp_path).records("train", form="bytes")
    assert again.__getitems__(range(len(expected))) == expected
    assert list(records) == expected


@pytest.mark.parametrize("size", ["1B", "500KB", "1MB"])
def test_a_cache_that_is_too_small_gives_the_same_records(dataset, expected, tmp_path, size):
    for _ in range(2):
        records = open_dataset(dataset, cache=tmp_path, cache_size=size).records("train", form="bytes")
        shuffled = random.Random(1).sample(range(len(expected)), len(expected))
        for start in range(0, len(expected), 5):
            numbers = shuffled[start : start + 5]
            assert records.__getitems__(numbers) == [expected[number] for number in numbers]


def test_a_dataset_that_was_replaced_is_never_mixed_with_what_is_kept(server, local, tmp_path):
    path = f"{server.scheme}://datasets/replaced"
    buckets.upload(local, path)
    before = open_dataset(path, cache=tmp_path / "cache").records("train", form="bytes")
    first = list(before[:10])
    other = tmp_path / "other"
    buckets.build(f"--input={PHOTOS}", f"--output={other}", *FLAGS, "--seed=7")
    buckets.upload(other, path)
    after = open_dataset(path, cache=tmp_path / "cache").records("train", form="bytes")
    assert list(after) == list(open_dataset(other).records("train", form="bytes")) != first
    # What was kept is that of the dataset that was opened; what was not kept is refused.
    assert list(before[:10]) == first
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(Exception, match="was replaced"):
        list(before)


def test_a_cache_in_a_bucket_is_refused(dataset):
    with pytest.raises(Exception, match="expected a folder of this machine"):
        open_dataset(dataset, cache="gs://datasets/cache")
    with pytest.raises(ValueError, match="cache_size='much'"):
        open_dataset(dataset, cache="cache", cache_size="much")
    assert storage.exists(f"{dataset}/_SUCCESS")
