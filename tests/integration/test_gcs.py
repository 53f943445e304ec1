"""The main job from gs:// to gs://, on the local runner with real worker processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from tests.integration.servers import gcs

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs.GcsServer]:
    """A storage service with the sample photos in gs://photos."""
    with gcs.gcs_server(tmp_path, buckets=("photos", "datasets")) as running:
        bucket = running.client().bucket("photos")
        for path in PHOTOS.rglob("*.jpg"):
            bucket.blob(path.relative_to(PHOTOS).as_posix()).upload_from_filename(path)
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def run(*words: str) -> subprocess.CompletedProcess[str]:
    # In a process of its own: worker processes keep the endpoint of the first build of their parent.
    command = [Path(sys.executable).with_name("beam-tfrecords"), *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


def read(server: gcs.GcsServer, name: str) -> bytes:
    return server.client().bucket("datasets").blob(name).download_as_bytes()


def test_a_build_from_bucket_to_bucket_has_the_bytes_of_a_local_one(server, tmp_path):
    flags = ["--name=photos", "--image_size=64", "--splits=train=0.8,validation=0.2"]
    assert run("convert", "--input=gs://photos", "--output=gs://datasets/out", *flags).returncode == 0
    assert run("convert", f"--input={PHOTOS}", f"--output={tmp_path / 'out'}", *flags).returncode == 0
    names = sorted(blob.name for blob in server.client().list_blobs("datasets"))
    local = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert names == local
    for name in names:
        if ".tfrecord-" in name:
            assert read(server, name) == (tmp_path / name).read_bytes()
    assert run("verify", "--dataset=gs://datasets/out").returncode == 0
    inspected = run("inspect", "--dataset=gs://datasets/out", "--examples=1")
    assert inspected.returncode == 0
    assert "photos in gs://datasets/out" in inspected.stdout


def test_a_manifest_in_a_bucket_names_images_there_and_missing_ones_are_listed(server, tmp_path):
    rows = ["image,label", *(f"cat/cat_0{number}.jpg,cat" for number in range(1, 9))]
    bucket = server.client().bucket("photos")
    bucket.blob("labels.csv").upload_from_string("\n".join(rows))
    flags = ["--image_size=32", "--max_failures=0.5", "--compression=gzip", "--class_names=cat"]
    assert run("convert", "--input=gs://photos/labels.csv", "--output=gs://datasets/cats", *flags).returncode == 0
    failures = [json.loads(line) for line in read(server, "cats/failures.jsonl").splitlines()]
    assert sorted((failure["key"], failure["reason"]) for failure in failures) == [
        ("cat/cat_07.jpg", "unreadable"),
        ("cat/cat_08.jpg", "unreadable"),
    ]
    (tmp_path / "shard").write_bytes(read(server, "cats/labels-train.tfrecord-00000-of-00001"))
    assert len(list(tf.data.TFRecordDataset(str(tmp_path / "shard"), compression_type="GZIP"))) == 6


def test_an_overwrite_replaces_what_is_in_the_bucket(server):
    flags = ["--input=gs://photos", "--output=gs://datasets/out", "--name=photos", "--image_size=32"]
    assert run("convert", *flags, "--num_shards=3").returncode == 0
    assert run("convert", *flags, "--num_shards=2").returncode == 2
    assert run("convert", *flags, "--num_shards=2", "--overwrite").returncode == 0
    shards = [blob.name for blob in server.client().list_blobs("datasets") if ".tfrecord-" in blob.name]
    assert [name.rsplit("-", 3)[-3:] for name in sorted(shards)] == [["00000", "of", "00002"], ["00001", "of", "00002"]]


def test_versions_in_a_bucket_reuse_what_has_not_changed(server):
    words = ["convert", "--input=gs://photos", "--output=gs://datasets/nightly", "--image_size=64", "--versioned"]
    words += ["--keep_versions=1", "--grace=0s", "--guard=off"]
    assert run(*words).returncode == 0
    assert "nothing has changed" in run(*words).stdout
    bucket = server.client().bucket("photos")
    bucket.blob("cat/cat_01.jpg").delete()
    bucket.copy_blob(bucket.blob("space/space_01.jpg"), bucket, "rocket/new.jpg")
    again = run(*words)
    assert again.returncode == 0
    assert "copied 41, reserialized 0, changed 0, added 1, removed 1" in again.stdout
    latest = read(server, "nightly/LATEST").decode().strip()
    names = {blob.name for blob in server.client().list_blobs("datasets")}
    assert {name.split("/")[1] for name in names} == {latest, "LATEST"}
    assert run("verify", "--dataset=gs://datasets/nightly").returncode == 0
    status = json.loads(run("status", "--output=gs://datasets/nightly", "--json").stdout)
    assert (status["state"], status["latest"], len(status["versions"])) == ("idle", latest, 1)


def test_a_second_build_into_a_bucket_is_refused_while_the_first_one_lives(server):
    words = ["convert", "--input=gs://photos", "--output=gs://datasets/out", "--image_size=64"]
    command = [Path(sys.executable).with_name("beam-tfrecords"), *words]
    # Slow enough that both overlap.
    slow = ["--codec=exact", "--image_encoding=png", "--image_size=2000"]
    first = subprocess.Popen([*command[:-1], *slow], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not any("/listing/" in blob.name for blob in server.client().list_blobs("datasets")):
        assert first.poll() is None
        time.sleep(0.05)
    second = subprocess.run([*command[:-1], *slow], stderr=subprocess.PIPE, text=True)
    assert second.returncode == 4
    assert f"another build is writing to it, process {first.pid} on " in second.stderr
    assert first.wait() == 0
