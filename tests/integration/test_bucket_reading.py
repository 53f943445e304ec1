"""What reads a dataset reads it from a bucket too, also with a cache; files of a build may lie in a bucket."""

from __future__ import annotations

import io
import json
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from beam_tfrecords import load, mix, open_dataset
from tests.framing import records_of
from tests.integration import buckets

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
FLAGS = ("--name=photos", "--image_size=64", "--resize_mode=crop", "--splits=train=0.8,validation=0.2")
CLASSES = sorted(path.name for path in PHOTOS.iterdir() if path.is_dir())


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(scheme: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with buckets.services(tmp_path_factory.mktemp("server"), scheme) as running:
        yield running[scheme]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of many small shards on disk."""
    folder = tmp_path_factory.mktemp("local") / "out"
    buckets.build(f"--input={PHOTOS}", f"--output={folder}", *FLAGS, "--num_shards=3")
    return folder


@pytest.fixture(scope="module")
def dataset(server: Any, scheme: str, local: Path) -> str:
    """The same in a bucket."""
    buckets.upload(local, f"{scheme}://datasets/out")
    return f"{scheme}://datasets/out"


@pytest.fixture
def expected(local: Path) -> list[bytes]:
    return list(open_dataset(local).records("train", form="bytes"))


@pytest.fixture(params=[False, True], ids=["uncached", "cached"])
def opened(request: pytest.FixtureRequest, dataset: str, tmp_path: Path) -> Any:
    return open_dataset(dataset, cache=tmp_path / "cache") if request.param else open_dataset(dataset)


@pytest.fixture
def requests_for(server: Any) -> Callable[[Callable[[], object]], int]:
    """How many requests for shards and indices a function makes."""

    def count(read: Callable[[], object]) -> int:
        server.requests.clear()
        read()
        return sum("tfrecord" in request or "parquet" in request for request in server.requests)

    return count


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([buckets.PROGRAM, *words], capture_output=True, text=True, check=False)


def read(path: Any, split: str, **arguments: Any) -> list[tuple[bytes, bytes, int]]:
    examples = load(path, split, **arguments).as_numpy_iterator()
    return [(example["filename"], example["image"].tobytes(), example["label"]) for example in examples]


def test_load_gives_what_it_gives_of_the_same_dataset_on_disk(opened, local):
    for arguments in ({"split": "train"}, {"split": "validation"}, {"split": "train", "num_readers": 2}):
        assert read(opened, **arguments) == read(local, **arguments)
    assert sorted(read(opened, "train", shuffle=True, seed=1)) == sorted(read(local, "train"))

    def read_all(dataset: Any) -> list[list[bytes]]:
        records = dataset["train"]
        mixed = mix([(records.filter(label="cat"), 0.5), (records, 0.5)], seed=1)
        found = (load(mixed), load(records[[3, 7, 3]]))
        return [[one["filename"] for one in examples.as_numpy_iterator()] for examples in found]

    assert read_all(opened) == read_all(open_dataset(local))


@pytest.mark.parametrize("options", [{}, {"shuffle": 9, "seed": 1}, {"num_readers": 2, "reader_index": 1}])
def test_a_checkpoint_goes_on_whatever_is_kept(dataset, tmp_path, options):
    def batches(cache: str | None) -> Any:
        return iter(load(open_dataset(dataset, cache=cache), "all", batch_size=4, **options))

    def rest(iterator: Any) -> list[list[bytes]]:
        return [batch["filename"].numpy().tolist() for batch in iterator]

    for had in (0, 4):
        iterator = batches(str(tmp_path / "cache"))
        for _ in range(had):
            next(iterator)
        saved = tf.train.Checkpoint(iterator=iterator).save(tmp_path / f"state{had}")
        left = rest(iterator)
        for cache in (None, str(tmp_path / "cache"), str(tmp_path / "other")):
            again = batches(cache)
            tf.train.Checkpoint(iterator=again).restore(saved)
            assert rest(again) == left


def test_records_there_are_those_of_the_same_dataset_on_disk(opened, local):
    there, here = (one.records("train", form="bytes", verify=True) for one in (opened, open_dataset(local)))
    assert list(there) == list(here)
    shuffled = random.Random(0).sample(range(len(here)), len(here))
    assert there.__getitems__(shuffled) == here.__getitems__(shuffled)
    assert [there[number] for number in (0, -1)] == [here[0], here[-1]]
    assert list(there.filter(label="cat")) == list(here.filter(label="cat"))
    code = "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(list(pickle.load(sys.stdin.buffer))))"
    ran = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(there[5:]), capture_output=True, check=True)
    assert pickle.loads(ran.stdout) == list(here[5:])
    assert opened.records("train")[0]["image"].shape == (64, 64, 3)


def test_records_that_lie_together_are_one_request(dataset, server, requests_for):
    records = open_dataset(dataset).records("train", form="bytes")
    list(records)  # places are known then
    # One for each shard.
    assert requests_for(lambda: list(records)) == 3
    assert requests_for(lambda: records.__getitems__(range(5))) == 1
    assert requests_for(lambda: records[3]) == 1
    # One for each index.
    assert requests_for(lambda: records.filter(label="cat")) == 3
    assert not any(".tfrecord" in request for request in server.requests)


# With a cache


def test_the_second_epoch_asks_for_nothing(dataset, requests_for, expected, tmp_path):
    opened = open_dataset(dataset, cache=str(tmp_path / "cache"), cache_size="1GB")

    def records():
        return opened.records("train", form="bytes")

    def check(order) -> None:
        assert records().__getitems__(order) == [expected[number] for number in order]

    shuffled = random.Random(0).sample(range(len(expected)), len(expected))
    # A request for each shard, as it is smaller than a block, and one for its index.
    assert requests_for(lambda: check(shuffled)) == 6
    mixed = mix([(opened["train"], 1), (opened["train"], 2)])
    for use in (
        lambda: check(range(len(expected))),
        lambda: [records()[number] for number in (3, -1)],
        lambda: list(records()),
        lambda: records().filter(label="cat"),
        # Other readers share it.
        lambda: [*load(opened, "train"), *load(opened, "train", shuffle=True)],
        lambda: [*load(mixed), *mixed],
    ):
        assert requests_for(use) == 0


def test_four_processes_read_each_range_once(dataset, server, tmp_path):
    code = (
        "import sys; from beam_tfrecords import open_dataset\n"
        "records = open_dataset(sys.argv[1], cache=sys.argv[2]).records('train', form='bytes')\n"
        "import hashlib; print(hashlib.sha256(b''.join(records)).hexdigest())"
    )
    server.requests.clear()
    command = [sys.executable, "-c", code, dataset, str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert not any(process.returncode for process in processes)
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


def test_a_dataset_that_was_replaced_is_never_mixed_with_what_is_kept(scheme, local, tmp_path):
    path = f"{scheme}://datasets/replaced"
    buckets.upload(local, path)
    before = open_dataset(path, cache=tmp_path / "cache").records("train", form="bytes")
    first = list(before[:10])
    other = tmp_path / "other"
    buckets.build(f"--input={PHOTOS}", f"--output={other}", *FLAGS, "--num_shards=3", "--seed=7")
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


# Files of a build


def test_commands_read_it(dataset):
    buckets.verify(dataset)
    shown = run("inspect", f"--dataset={dataset}", "--split=validation", "--examples=1")
    assert (shown.returncode, "rocket" in shown.stdout) == (0, True), shown.stderr
    assert f"photos in {dataset}" in shown.stdout
    status = run("status", f"--output={dataset}", "--json")
    assert json.loads(status.stdout)["dataset"]["records"] == 42
    assert open_dataset(dataset).manifest["records"] == 42


def test_spec_class_names_and_reports_may_be_there(dataset, tmp_path):
    classes = [*CLASSES[::-1], "unicorn"]
    buckets.write(f"{dataset}-classes.txt", "".join(f"{name}\n" for name in classes).encode())
    spec = {"input": str(PHOTOS), "image_size": 64, "class_names": f"{dataset}-classes.txt"}
    buckets.write(f"{dataset}-spec.yaml", json.dumps(spec).encode())
    reports = (f"--json_summary={dataset}-run.json", f"--metrics_file={dataset}-run.prom")
    buckets.build(f"--spec={dataset}-spec.yaml", f"--output={tmp_path}", *reports)
    assert open_dataset(tmp_path).manifest["class_names"] == classes
    assert json.loads(buckets.read(f"{dataset}-run.json"))["records"] == 42
    assert b"beam_tfrecords_records" in buckets.read(f"{dataset}-run.prom")


def test_records_of_an_earlier_dataset_there_are_reused(dataset, tmp_path):
    buckets.build(f"--input={PHOTOS}", f"--output={tmp_path}", *FLAGS, "--num_shards=3", f"--reuse={dataset}")
    built = open_dataset(tmp_path)
    assert built.manifest["reuse"]["copied"] == 42
    assert [shard.crc32c for shard in built.shards] == [shard.crc32c for shard in open_dataset(dataset).shards]


def test_a_pipeline_of_the_users_own_writes_shards_there(server, scheme, tmp_path):
    import apache_beam as beam

    from beam_tfrecords import WriteTFRecordShards

    examples = [f"example {number}".encode() for number in range(100)]
    root = f"{scheme}://datasets/own"
    with beam.Pipeline() as pipeline:
        _ = pipeline | beam.Create(examples) | WriteTFRecordShards(f"{root}/numbers", num_shards=2)
    files = buckets.files_of(root)
    assert files == [f"numbers.tfrecord-{number:05d}-of-00002" for number in range(2)]
    for name in files:
        (tmp_path / name).write_bytes(buckets.read(f"{root}/{name}"))
    assert sorted(one for name in files for one in records_of(tmp_path / name)) == sorted(examples)


def test_an_export_to_a_bucket_has_the_stored_images(dataset, scheme, tmp_path):
    folder = f"{scheme}://datasets/folder"
    ran = run("export", f"--dataset={dataset}", f"--to={folder}", "--where=label != 'cat'")
    assert ran.returncode == 0, ran.stderr
    rows = pq.read_table(io.BytesIO(buckets.read(f"{folder}/samples.parquet"))).to_pylist()
    kept = {one["filename"]: one["image"] for one in open_dataset(dataset).records(form="features")}
    kept = {name.decode(): image for name, image in kept.items() if not name.startswith(b"cat")}
    assert {Path(row["key"]).name: buckets.read(f"{folder}/{row['image']}") for row in rows} == kept
    ran = run("export", f"--dataset={dataset}", f"--to={folder}")
    assert (ran.returncode, "is not empty" in ran.stderr) == (2, True)
    assert run("export", f"--dataset={dataset}", f"--to={tmp_path / 'on_disk'}").returncode == 0
