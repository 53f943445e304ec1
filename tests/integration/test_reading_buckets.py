"""What reads a dataset reads it from a bucket too, and what names a file of a build may name one there."""

from __future__ import annotations

import json
import pickle
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from beam_tfrecords import load, mix, open_dataset
from tests.integration.servers import gcs, s3

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
FLAGS = ("--name=photos", "--image_size=64", "--resize_mode=crop", "--splits=train=0.8,validation=0.2")
CLASSES = sorted(path.name for path in PHOTOS.iterdir() if path.is_dir())
SERVERS = {"gs": gcs.gcs_server, "s3": s3.s3_server}


@pytest.fixture(scope="module", params=list(SERVERS))
def scheme(request):
    return request.param


@pytest.fixture(scope="module")
def server(scheme, tmp_path_factory):
    """A service with an empty bucket."""
    with (
        SERVERS[scheme](tmp_path_factory.mktemp("server"), buckets=("datasets",)) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture(scope="module")
def bucket(server, scheme):
    """The URI of an empty bucket."""
    return f"{scheme}://datasets"


@pytest.fixture(scope="module")
def dataset(bucket):
    """A dataset of many small shards in the bucket."""
    assert run("convert", f"--input={PHOTOS}", f"--output={bucket}/out", *FLAGS, "--num_shards=3").returncode == 0
    return f"{bucket}/out"


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The same on disk."""
    folder = tmp_path_factory.mktemp("local")
    assert run("convert", f"--input={PHOTOS}", f"--output={folder}", *FLAGS, "--num_shards=3").returncode == 0
    return folder


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("beam-tfrecords"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def read(path, split: str, **arguments) -> list[tuple[bytes, bytes, int]]:
    examples = load(path, split, **arguments).as_numpy_iterator()
    return [(example["filename"], example["image"].tobytes(), example["label"]) for example in examples]


def test_load_gives_what_it_gives_of_the_same_dataset_on_disk(dataset, local):
    for arguments in ({"split": "train"}, {"split": "validation"}, {"split": "train", "num_readers": 2}):
        assert read(dataset, **arguments) == read(local, **arguments)
    assert len(read(dataset, "train", shuffle=True, seed=1)) == len(read(local, "train"))


def test_load_reads_filtered_and_mixed_records_there(dataset, local):
    def read_all(path) -> list[list[bytes]]:
        records = open_dataset(path)["train"]
        mixed = mix([(records.filter(label="cat"), 0.5), (records, 0.5)], seed=1)
        found = (load(records.filter(label="cat")), load(mixed), load(records[[3, 7, 3]]))
        return [[one["filename"] for one in examples.as_numpy_iterator()] for examples in found]

    assert read_all(dataset) == read_all(local)


@pytest.mark.parametrize("options", [{}, {"shuffle": True, "seed": 1}, {"num_readers": 2, "reader_index": 1}])
@pytest.mark.parametrize("had", [0, 3, 5])
def test_a_checkpoint_of_an_iterator_goes_on_there(dataset, tmp_path, options, had):
    def batches():
        return iter(load(dataset, "all", batch_size=4, **options))

    def rest(iterator) -> list[list[bytes]]:
        return [batch["filename"].numpy().tolist() for batch in iterator]

    iterator = batches()
    for _ in range(had):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "state")
    expected, again = rest(iterator), batches()
    tf.train.Checkpoint(iterator=again).restore(path)
    assert rest(again) == expected


def test_records_there_are_those_of_the_same_dataset_on_disk(dataset, local):
    there, here = (open_dataset(path).records("train", form="bytes", verify=True) for path in (dataset, local))
    assert list(there) == list(here)
    shuffled = random.Random(0).sample(range(len(here)), len(here))
    assert there.__getitems__(shuffled) == here.__getitems__(shuffled)
    assert [there[number] for number in (0, -1)] == [here[0], here[-1]]
    assert list(there.filter(label="cat")) == list(here.filter(label="cat"))
    code = "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(list(pickle.load(sys.stdin.buffer))))"
    ran = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(there[5:]), capture_output=True, check=True)
    assert pickle.loads(ran.stdout) == list(here[5:])
    assert open_dataset(dataset).records("train")[0]["image"].shape == (64, 64, 3)


def test_records_that_lie_together_are_one_request(dataset, server):
    records = open_dataset(dataset).records("train", form="bytes")

    def requests_for(read) -> int:
        server.requests.clear()
        read()
        return sum("tfrecord" in request for request in server.requests)

    # One for each shard.
    assert requests_for(lambda: list(records)) == 3
    assert requests_for(lambda: records.__getitems__(range(5))) == 1
    assert requests_for(lambda: records[3]) == 1
    assert requests_for(lambda: records.filter(label="cat")) == 0


def test_commands_read_it(dataset):
    verified = run("verify", f"--dataset={dataset}")
    assert (verified.returncode, verified.stdout[:15]) == (0, "OK: 42 records "), verified.stderr
    shown = run("inspect", f"--dataset={dataset}", "--split=validation", "--examples=1")
    assert shown.returncode == 0, shown.stderr
    assert "rocket" in shown.stdout
    status = run("status", f"--output={dataset}", "--json")
    assert json.loads(status.stdout)["dataset"]["records"] == 42
    assert open_dataset(dataset).manifest["records"] == 42


def test_spec_class_names_and_reports_may_be_there(bucket, tmp_path):
    from beam_tfrecords import storage

    classes = [*CLASSES[::-1], "unicorn"]
    storage.write_bytes(f"{bucket}/classes.txt", "".join(f"{name}\n" for name in classes).encode())
    spec = {"input": str(PHOTOS), "image_size": 64, "class_names": f"{bucket}/classes.txt"}
    storage.write_bytes(f"{bucket}/spec.yaml", json.dumps(spec).encode())
    reports = (f"--json_summary={bucket}/run.json", f"--metrics_file={bucket}/run.prom")
    ran = run("convert", f"--spec={bucket}/spec.yaml", f"--output={tmp_path}", *reports)
    assert ran.returncode == 0, ran.stderr
    assert open_dataset(tmp_path).manifest["class_names"] == classes
    assert json.loads(storage.read_bytes(f"{bucket}/run.json"))["records"] == 42
    assert b"beam_tfrecords_records" in storage.read_bytes(f"{bucket}/run.prom")


def test_records_of_an_earlier_dataset_there_are_reused(dataset, tmp_path):
    ran = run("convert", f"--input={PHOTOS}", f"--output={tmp_path}", *FLAGS, "--num_shards=3", f"--reuse={dataset}")
    assert ran.returncode == 0, ran.stderr
    assert open_dataset(tmp_path).manifest["reuse"]["copied"] == 42
    assert [shard.crc32c for shard in open_dataset(tmp_path).shards] == [
        shard.crc32c for shard in open_dataset(dataset).shards
    ]


def test_a_pipeline_of_the_users_own_writes_shards_there(bucket):
    import apache_beam as beam

    from beam_tfrecords import WriteTFRecordShards, storage
    from beam_tfrecords.tfrecord import read_records

    examples = [f"example {number}".encode() for number in range(100)]
    with beam.Pipeline() as pipeline:
        _ = pipeline | beam.Create(examples) | WriteTFRecordShards(f"{bucket}/own/numbers", num_shards=2)
    files = [entry.path for entry in storage.list_files(f"{bucket}/own")]
    assert sorted(files) == [f"{bucket}/own/numbers.tfrecord-{number:05d}-of-00002" for number in range(2)]
    found = []
    for file in files:
        with storage.open_read(file) as opened:
            found += [record.data for record in read_records(opened)]
    assert sorted(found) == sorted(examples)


def test_an_export_to_a_bucket_is_converted_again(dataset, bucket, tmp_path):
    ran = run("export", f"--dataset={dataset}", f"--to={bucket}/folder", "--where=label != 'cat'")
    assert ran.returncode == 0, ran.stderr
    command = next(line for line in ran.stdout.splitlines() if line.startswith("beam-tfrecords convert"))
    *words, _ = shlex.split(command)[1:]
    assert run(*words, f"--output={tmp_path}").returncode == 0
    some = [example for example in read(dataset, "train") if example[2] != CLASSES.index("cat")]
    assert read(tmp_path, "train") == some
    ran = run("export", f"--dataset={dataset}", f"--to={bucket}/folder")
    assert (ran.returncode, "is not empty" in ran.stderr) == (2, True)
    assert run("export", f"--dataset={dataset}", f"--to={tmp_path / 'on_disk'}").returncode == 0
