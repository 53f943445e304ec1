"""The main job to and from s3://, on the local runner with real worker processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.servers import proxy, s3
from tests.progress_lines import without_progress

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
FLAGS = ["--name=photos", "--image_size=64", "--splits=train=0.8,validation=0.2"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3Server]:
    """A storage service with the sample photos in s3://photos."""
    with s3.s3_server(tmp_path_factory.mktemp("s3"), buckets=("photos", "tables", "datasets")) as server:
        for path in PHOTOS.rglob("*.jpg"):
            server.client().upload_file(str(path), "photos", path.relative_to(PHOTOS).as_posix())
        yield server


@pytest.fixture
def server(running: s3.S3Server, monkeypatch: pytest.MonkeyPatch) -> s3.S3Server:
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    return running


@pytest.fixture(scope="module")
def local_shards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The shards of a build from disk to disk."""
    folder = tmp_path_factory.mktemp("local")
    assert run("convert", f"--input={PHOTOS}", f"--output={folder}", *FLAGS).returncode == 0
    return shards_in(folder)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    # In a process of its own: worker processes keep the endpoint of the first build of their parent.
    command = [Path(sys.executable).with_name("beam-tfrecords"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def built(*words: str) -> str:
    ran = run("convert", *words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def names_below(server: s3.S3Server, prefix: str) -> list[str]:
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket="datasets", Prefix=f"{prefix}/")
    return sorted(found["Key"].removeprefix(f"{prefix}/") for page in pages for found in page.get("Contents", ()))


def read(server: s3.S3Server, name: str) -> bytes:
    return server.client().get_object(Bucket="datasets", Key=name)["Body"].read()


def shards_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.tfrecord-*")}


def shards_below(server: s3.S3Server, prefix: str) -> dict[str, bytes]:
    names = [name for name in names_below(server, prefix) if ".tfrecord-" in name]
    return {name: read(server, f"{prefix}/{name}") for name in names}


def test_a_build_from_bucket_to_bucket_has_the_bytes_of_a_local_one(server, local_shards, tmp_path):
    built("--input=s3://photos", "--output=s3://datasets/out", *FLAGS)
    assert shards_below(server, "out") == local_shards
    built(f"--input={PHOTOS}", f"--output={tmp_path}", *FLAGS)
    local = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert names_below(server, "out") == local
    verified = run("verify", "--dataset=s3://datasets/out")
    assert (verified.returncode, verified.stderr) == (0, "")
    inspected = run("inspect", "--dataset=s3://datasets/out", "--examples=1")
    assert inspected.returncode == 0
    assert "photos in s3://datasets/out" in inspected.stdout
    assert not server.client().list_multipart_uploads(Bucket="datasets").get("Uploads")


def test_a_glob_of_objects(server, tmp_path):
    built("--input=s3://photos/c*/*_0[1-3].jpg", f"--output={tmp_path / 'objects'}", "--image_size=32", "--name=c")
    built(f"--input={PHOTOS}/c*/*_0[1-3].jpg", f"--output={tmp_path / 'files'}", "--image_size=32", "--name=c")
    shards = shards_in(tmp_path / "objects")
    assert shards
    assert shards == shards_in(tmp_path / "files")


class WithoutETags(proxy.Handler):
    """A store that tells nothing by which two contents of a name can be told apart."""

    def pass_on(self, body: bytes) -> proxy.Answer:
        status, headers, content = super().pass_on(body)
        headers = {name: value for name, value in headers.items() if name.lower() != "etag"}
        return proxy.Answer(status, headers, re.sub(rb"<ETag>.*?</ETag>", b"", content))


def test_images_of_a_store_without_etags_are_read(server, local_shards, tmp_path, monkeypatch):
    with proxy.running(WithoutETags, lambda url: s3.S3Server(url, server.upstream_port, {})) as bare:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bare.endpoint)
        built("--input=s3://photos", f"--output={tmp_path}", *FLAGS)
        assert shards_in(tmp_path) == local_shards
        ran = run("convert", f"--input={PHOTOS}", "--output=s3://datasets/bare", *FLAGS)
    assert (ran.returncode, "the store returns no ETags for its objects" in ran.stderr) == (1, True), ran.stderr


def test_a_table_in_one_bucket_names_images_in_another_and_missing_ones_are_listed(server, tmp_path):
    names = [f"cat/cat_0{number}.jpg" for number in range(1, 9)]
    flags = ["--name=cats", "--image_size=32", "--max_failures=0.5", "--allow_outside_root", "--class_names=cat"]
    (tmp_path / "labels.csv").write_text("\n".join(["image,label", *(f"{PHOTOS}/{name},cat" for name in names)]))
    table = "\n".join(
        ["image,label", *(f"s3://photos/{name},cat" for name in names), "s3://photos/space/space_01.jpg,"]
    )
    server.client().put_object(Bucket="tables", Key="labels.csv", Body=table.encode())
    built("--input=s3://tables/labels.csv", "--output=s3://datasets/cats", *flags)
    failures = [json.loads(line) for line in read(server, "cats/failures.jsonl").splitlines()]
    assert sorted((failure["key"], failure["reason"]) for failure in failures) == [
        ("s3://photos/cat/cat_07.jpg", "unreadable"),
        ("s3://photos/cat/cat_08.jpg", "unreadable"),
        ("s3://photos/space/space_01.jpg", "label_missing"),
    ]
    _, _, rest = read(server, "cats/report.html").decode().partition('id="failures"')
    assert rest.partition("<h2")[0].count("<img") == 1
    assert run("verify", "--dataset=s3://datasets/cats").returncode == 0


def test_versions_in_a_bucket_reuse_what_has_not_changed(server):
    client = server.client()
    client.create_bucket(Bucket="changing")
    for path in PHOTOS.rglob("*.jpg"):
        client.upload_file(str(path), "changing", path.relative_to(PHOTOS).as_posix())
    words = ["--input=s3://changing", "--output=s3://datasets/nightly", "--image_size=64", "--versioned"]
    words += ["--keep_versions=1", "--grace=0s", "--guard=off"]
    built(*words)
    assert "nothing has changed" in built(*words)
    # The same bytes, written later.
    client.upload_file(str(PHOTOS / "cat/cat_02.jpg"), "changing", "cat/cat_02.jpg")
    assert "nothing has changed" in built(*words)
    client.delete_object(Bucket="changing", Key="cat/cat_01.jpg")
    client.copy_object(
        Bucket="changing", Key="rocket/new.jpg", CopySource={"Bucket": "changing", "Key": "space/space_01.jpg"}
    )
    assert "copied 41, reserialized 0, changed 0, added 1, removed 1" in built(*words)
    latest = read(server, "nightly/LATEST").decode().strip()
    assert {name.split("/")[0] for name in names_below(server, "nightly")} == {latest, "LATEST"}
    assert run("verify", "--dataset=s3://datasets/nightly").returncode == 0
    status = json.loads(run("status", "--output=s3://datasets/nightly", "--json").stdout)
    assert (status["state"], status["latest"], len(status["versions"])) == ("idle", latest, 1)


def test_an_overwrite_replaces_what_is_in_the_bucket(server):
    flags = ["--input=s3://photos", "--output=s3://datasets/again", "--name=photos", "--image_size=32"]
    built(*flags, "--num_shards=3")
    assert run("convert", *flags, "--num_shards=2").returncode == 2
    built(*flags, "--num_shards=2", "--overwrite")
    assert [name[-14:] for name in shards_below(server, "again")] == ["00000-of-00002", "00001-of-00002"]


def test_a_build_goes_on_where_the_store_refuses_requests_for_a_while(server, local_shards):
    for method in ("GET", "PUT"):
        server.refuse(method, "busy", times=3)
    server.refuse("GET", "/photos/", times=3)
    server.break_off("GET", "/photos/c", times=2)
    built("--input=s3://photos", "--output=s3://datasets/busy", *FLAGS)
    assert not server.has_faults()
    assert shards_below(server, "busy") == local_shards


@pytest.mark.parametrize(
    ("bucket", "message"),
    [("no-such-bucket", "there is no bucket 'no-such-bucket'"), ("tables/nothing", "does not exist")],
)
def test_an_input_that_is_not_there_is_one_line(server, bucket, message, tmp_path):
    ran = run("convert", f"--input=s3://{bucket}", f"--output={tmp_path}/out")
    assert ran.returncode == 2
    assert message in ran.stderr
    assert len(without_progress(ran.stderr).splitlines()) == 1


def test_a_store_that_is_not_there_is_one_line(server, tmp_path):
    words = ["convert", "--input=s3://photos", f"--output={tmp_path}/out"]
    environment = {**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "BEAM_TFRECORDS_RETRY_SECONDS": "1"}
    command = [Path(sys.executable).with_name("beam-tfrecords"), *words]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "s3://photos does not answer: no connection to http://127.0.0.1:9" in ran.stderr.splitlines()[-1]
